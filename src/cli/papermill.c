/*
 * papermill's marks in a notebook. See papermill.h.
 */
#include "cli/papermill.h"

#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/say.h"

static const char MARK_TAG[] = "papermill-error-cell-tag";
static const char INJECTED_TAG[] = "injected-parameters";
static const char PARAMETERS_TAG[] = "parameters";

#define MARK_STYLE "style=\"color:red; font-size:2em;\""

static struct json *tagged(const char *tag)
{
	struct json *metadata = json_new_object();
	struct json *tags = json_new_array();

	json_push(tags, json_new_string(tag, strlen(tag)));
	json_set(metadata, "tags", tags);
	return metadata;
}

static void warn_of_unknown(const struct document *document, const struct parameters *parameters)
{
	size_t index = document_find_tag(document, PARAMETERS_TAG);
	const struct document_cell *cell =
		index < document->cell_count ? &document->cells[index] : NULL;

	if (!cell)
		say("the notebook has no cell tagged \"parameters\"");
	for (size_t i = 0; cell && i < parameters->count; i++)
		if (!parameters_assigned(cell->source, cell->source_len, parameters->list[i].name))
			say("the cell tagged \"parameters\" does not know the parameter %s",
			    parameters->list[i].name);
}

void papermill_inject(struct document *document, const struct parameters *parameters)
{
	size_t index = document_find_tag(document, INJECTED_TAG);
	cleanup_buf struct buf source = BUF_INIT;

	if (parameters->count == 0)
		return;
	warn_of_unknown(document, parameters);
	parameters_source(parameters, &source);
	if (index < document->cell_count) {
		document_remove(document, index);
	} else {
		index = document_find_tag(document, PARAMETERS_TAG);
		index = index < document->cell_count ? index + 1 : 0;
	}
	document_insert(document, index, DOCUMENT_CODE, buf_bytes(&source), source.len,
			tagged(INJECTED_TAG));
}

void papermill_remove_marks(struct document *document)
{
	for (size_t i = document->cell_count; i > 0; i--)
		if (document_has_tag(&document->cells[i - 1], MARK_TAG))
			document_remove(document, i - 1);
}

void papermill_hide_code(struct document *document)
{
	for (size_t i = 0; i < document->cell_count; i++) {
		struct json *metadata = document->cells[i].metadata;
		struct json *jupyter = json_get(metadata, "jupyter");

		if (document->cells[i].type != DOCUMENT_CODE)
			continue;
		if (!jupyter) {
			jupyter = json_new_object();
			json_set(metadata, "jupyter", jupyter);
		}
		json_set(jupyter, "source_hidden", json_new_bool(true));
	}
}

void papermill_mark(struct transcript *transcript, size_t failed, int64_t execution_count)
{
	cleanup_free char *top =
		mem_format("<span " MARK_STYLE ">The run stopped at an exception in cell "
			   "<a href=\"#papermill-error-cell\">In [%lld]</a>.</span>",
			   (long long)execution_count);

	transcript_insert(transcript, failed, DOCUMENT_MARKDOWN,
			  "<span id=\"papermill-error-cell\" " MARK_STYLE
			  ">The run stopped at an exception in the next cell:</span>",
			  tagged(MARK_TAG));
	transcript_insert(transcript, 0, DOCUMENT_MARKDOWN, top, tagged(MARK_TAG));
}

/* --- metadata --------------------------------------------------------------------------------- */

/* datetime.isoformat() in UTC. */
static void set_time(struct json *object, const char *key, int64_t us)
{
	char text[CLOCK_TEXT_SIZE];
	cleanup_free char *iso = NULL;

	if (!us) {
		json_set(object, key, NULL);
		return;
	}
	clock_format(us, text);
	iso = mem_format("%.*s+00:00", (int)strcspn(text, "Z"), text);
	json_set_string(object, key, iso);
}

static void set_times(struct json *object, int64_t started_us, int64_t finished_us)
{
	set_time(object, "start_time", started_us);
	set_time(object, "end_time", finished_us);
	json_set(object, "duration",
		 started_us && finished_us
			 ? json_new_double((double)(finished_us - started_us) / 1e6)
			 : NULL);
}

static void set_cell(struct document *document, size_t index, const char *status,
		     struct json *exception, int64_t started_us, int64_t finished_us)
{
	struct json *made = json_new_object();

	set_times(made, started_us, finished_us);
	json_set(made, "exception", exception);
	json_set_string(made, "status", status);
	json_set(document->cells[index].metadata, "papermill", made);
}

static struct json *text_or_null(const char *text)
{
	return text ? json_new_string(text, strlen(text)) : NULL;
}

/* As papermill, what an earlier run of the notebook has written stays where nothing is new. */
void papermill_begin(struct document *document, const struct parameters *parameters,
		     const char *input_path, const char *output_path, int64_t now_us)
{
	struct json *made = json_get(document->metadata, "papermill");

	for (size_t i = 0; i < document->cell_count; i++)
		set_cell(document, i, "pending", NULL, 0, 0);
	if (json_type_of(made) != JSON_OBJECT) {
		made = json_new_object();
		json_set(document->metadata, "papermill", made);
		json_set(made, "default_parameters", json_new_object());
		json_set(made, "environment_variables", json_new_object());
		json_set(made, "parameters", json_new_object());
		json_set_string(made, "version", "fumehood " FH_VERSION);
	}
	if (parameters->count > 0)
		json_set(made, "parameters", parameters_json(parameters));
	json_set(made, "input_path", text_or_null(input_path));
	json_set(made, "output_path", text_or_null(output_path));
	json_set(made, "exception", NULL);
	set_times(made, now_us, 0);
}

void papermill_cell(struct document *document, size_t index, enum papermill_status status,
		    int64_t started_us, int64_t finished_us)
{
	static const char *const names[] = {"pending", "completed", "failed"};

	set_cell(document, index, names[status], json_new_bool(status == PAPERMILL_FAILED),
		 started_us, finished_us);
}

void papermill_end(struct document *document, bool exception, int64_t started_us, int64_t now_us)
{
	struct json *made = json_get(document->metadata, "papermill");

	set_times(made, started_us, now_us);
	json_set(made, "exception", exception ? json_new_bool(true) : NULL);
}
