/*
 * The built-in prompts, as the text of a template file. See prompt.h.
 */
#ifndef FH_AGENT_PROMPT_DEFAULT_H
#define FH_AGENT_PROMPT_DEFAULT_H

/* JSON. */
extern const char PROMPT_DEFAULT[];

#endif
