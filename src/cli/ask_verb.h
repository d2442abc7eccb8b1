/*
 * The verbs of the program fumehood-ask (ask_main.c).
 */
#ifndef FH_CLI_ASK_VERB_H
#define FH_CLI_ASK_VERB_H

/* argv[0] is the verb. Exit status. */
int ask_verb(int argc, char **argv);

#endif
