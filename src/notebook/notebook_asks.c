/*
 * Asks in the notebook; see notebook.h and asking.h.
 *
 * The question is there as soon as it is asked, so a notebook whose ask was cut off, by whatever
 * was killed, has the question and says that there is no answer; the verdict writes the cell anew.
 * What the notebook shall show behind the answer is kept until then, and nothing of an ask that
 * shows none. An ask ends with its keeper (journal/asked.h), and the oldest of very many goes: then
 * its cell stays as it is.
 */
#include <string.h>

#include "base/mem.h"
#include "journal/asked.h"
#include "notebook/asking.h"
#include "notebook/notebook_internal.h"

enum { ATTEMPTS_SHOWN_MAX = 64 };

struct shown_attempt {
	int64_t number;
	struct json *code;     /* the text; may be NULL */
	struct json *finished; /* the body of the event; or NULL */
	int64_t mends;         /* 0: none */
};

struct asking {
	struct asking *next;
	struct json *body; /* of its `ask`; shared with the event */
	struct cell *question;
	bool shows;
	struct shown_attempt *attempts;
	size_t count;
	size_t left_out; /* attempts beyond ATTEMPTS_SHOWN_MAX */
};

static void asking_free(struct asking *asking)
{
	for (size_t i = 0; i < asking->count; i++) {
		json_free(asking->attempts[i].code);
		json_free(asking->attempts[i].finished);
	}
	free(asking->attempts);
	json_free(asking->body);
	free(asking);
}

void notebook_forget_asks(struct notebook *notebook)
{
	while (notebook->asking) {
		struct asking *first = notebook->asking;

		notebook->asking = first->next;
		asking_free(first);
	}
}

/* The link to the open ask that the event names; its target is NULL when there is none. */
static struct asking **find(struct notebook *notebook, const struct json *body)
{
	const char *id = json_get_string(body, "ask");
	struct asking **link = &notebook->asking;

	while (*link && (!id || strcmp(json_get_string((*link)->body, "ask"), id) != 0))
		link = &(*link)->next;
	return link;
}

/* (Re)writes the cell of the question. */
static void write_question(struct asking *asking, const struct json *verdict, const char *cell)
{
	cleanup_buf struct buf source = BUF_INIT;
	struct cell *question = asking->question;

	asking_question(&source, asking->body, verdict, cell);
	free(question->source);
	question->source_len = source.len;
	question->source = buf_take(&source, NULL);
	json_free(question->metadata);
	question->metadata = asking_metadata(asking->body, verdict, cell);
	question->printed = false;
}

static void begin(struct notebook *notebook, const struct event *event)
{
	const char *id = json_get_string(event->body, "ask");
	const char *shown = json_get_string(event->body, "notebook_attempts");
	struct asking **last = &notebook->asking, *asking;
	cleanup_free char *wish = mem_format("ask-%s", id ? id : "");
	unsigned open = 0;

	if (asked_number(id) == 0 || *find(notebook, event->body))
		return; /* damage */
	for (; *last; last = &(*last)->next)
		open++;
	asking = mem_zalloc(sizeof(*asking));
	*last = asking;
	asking->body = json_keep(event->body);
	asking->shows = shown && strcmp(shown, "show") == 0;
	asking->question = notebook_add(notebook, CELL_MARKDOWN, wish);
	write_question(asking, NULL, NULL);
	if (open < ASKED_OPEN_MAX)
		return;
	asking = notebook->asking;
	notebook->asking = asking->next;
	asking_free(asking);
}

/* --- attempts --------------------------------------------------------------------------------- */

static struct shown_attempt *attempt_of(struct asking *asking, const struct json *body)
{
	int64_t number = json_get_int(body, "attempt", 0);
	struct shown_attempt *attempt;

	for (size_t i = 0; i < asking->count; i++)
		if (asking->attempts[i].number == number)
			return &asking->attempts[i];
	if (asking->count == ATTEMPTS_SHOWN_MAX) {
		asking->left_out++;
		return NULL;
	}
	asking->attempts =
		mem_resize(asking->attempts, asking->count + 1, sizeof(*asking->attempts));
	attempt = &asking->attempts[asking->count++];
	*attempt = (struct shown_attempt){.number = number};
	return attempt;
}

static void replace(struct json **place, struct json *value)
{
	json_free(*place);
	*place = value ? json_keep(value) : NULL;
}

static void take_attempt(struct asking *asking, const struct event *event)
{
	struct json *body = event->body;
	const char *state = json_get_string(body, "state");
	bool ends = state && strcmp(state, "finished") == 0;
	struct shown_attempt *attempt;

	if (event->type == EVENT_CODE) {
		attempt = attempt_of(asking, body);
		if (attempt)
			replace(&attempt->code, json_get(body, "code"));
	} else if (event->type == EVENT_ATTEMPT) {
		attempt = attempt_of(asking, body);
		if (attempt && ends)
			replace(&attempt->finished, body);
		else if (attempt)
			attempt->mends = json_get_int(body, "of", 0);
	}
}

/* Appends one; what has no `finished` was under way when the verdict came. */
static void put_attempt(struct buf *source, const struct shown_attempt *attempt)
{
	struct json *told = attempt->finished ? json_copy(attempt->finished) : json_new_object();

	json_set_int(told, "attempt", attempt->number);
	if (!json_has(told, "status"))
		json_set_string(told, "status", "not finished");
	if (attempt->mends > 0 && !json_has(told, "of"))
		json_set_int(told, "of", attempt->mends);
	asking_attempt(source, attempt->code, told);
	json_free(told);
}

/* All attempts but the chosen one, whose program is a cell of its own. */
static void show_attempts(struct notebook *notebook, const struct asking *asking, int64_t chosen)
{
	const char *id = json_get_string(asking->body, "ask");
	cleanup_free char *wish = mem_format("attempts-%s", id);
	cleanup_buf struct buf source = BUF_INIT;
	struct cell *cell;

	for (size_t i = 0; i < asking->count; i++) {
		if (asking->attempts[i].number == chosen)
			continue;
		if (source.len > 0)
			buf_append_char(&source, '\n');
		put_attempt(&source, &asking->attempts[i]);
	}
	if (asking->left_out > 0)
		buf_append_string(&source, "\nThe journal has more attempts.\n");
	if (source.len == 0)
		return;
	buf_truncate(&source, source.len - 1); /* its LF */
	cell = notebook_add(notebook, CELL_MARKDOWN, wish);
	cell->source_len = source.len;
	cell->source = buf_take(&source, NULL);
	cell->metadata = asking_attempts_metadata(id);
	cell->place = asking->question->place;
}

static void end(struct notebook *notebook, struct asking **link, const struct event *event)
{
	struct asking *asking = *link;
	const struct json *body = event->body;
	bool success = json_get_bool(body, "success", false);

	write_question(asking, body, event->cell);
	if (event->cell)
		asking->question->place = timeline_find(notebook->timeline, event->cell);
	if (asking->shows)
		show_attempts(notebook, asking, success ? json_get_int(body, "attempt", 0) : 0);
	*link = asking->next;
	asking_free(asking);
	notebook->changed = true;
	notebook_review(notebook);
}

void notebook_apply_ask(struct notebook *notebook, const struct event *event)
{
	const char *reason = json_get_string(event->body, "reason");
	struct asking **link;

	if (event->type == EVENT_ASK) {
		begin(notebook, event);
		return;
	}
	if (event->type == EVENT_RESTARTED) {
		if (reason && strcmp(reason, "reopened") == 0)
			notebook_forget_asks(notebook);
		return;
	}
	link = find(notebook, event->body);
	if (*link && event->type == EVENT_VERDICT)
		end(notebook, link, event);
	else if (*link && (*link)->shows)
		take_attempt(*link, event);
}
