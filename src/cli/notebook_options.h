/*
 * The options of `fumehood run FILE.ipynb`: those of nbclient and of papermill.
 */
#ifndef FH_CLI_NOTEBOOK_OPTIONS_H
#define FH_CLI_NOTEBOOK_OPTIONS_H

#include "cli/options.h"

struct notebook_options {
	/* nbclient's */
	bool inplace;
	bool allow_errors;
	const char *allow_error_names; /* "A,B" */
	bool force_raise_errors;
	const char *skip_tag; /* NULL: skip-execution */
	bool interrupt_on_timeout;
	bool record_timing; /* the default; to be given for symmetry */
	bool no_record_timing;
	/* papermill's */
	struct option_list parameters, raw, files, yaml, base64;
	bool inject_input_path, inject_output_path, inject_paths;
	bool report_mode;
	bool prepare_only;
	bool error_cells;
	bool papermill_metadata;
	bool no_progress_bar;
	const char *cwd;
	/* ours */
	const char *from_cell; /* number or id */
};

#define NOTEBOOK_OPTION_ROWS(options) \
	{"inplace", '\0', OPTION_FLAG, &(options).inplace}, \
		{"allow-errors", '\0', OPTION_FLAG, &(options).allow_errors}, \
		{"allow-error-names", '\0', OPTION_TEXT, &(options).allow_error_names}, \
		{"force-raise-errors", '\0', OPTION_FLAG, &(options).force_raise_errors}, \
		{"skip-tag", '\0', OPTION_TEXT, &(options).skip_tag}, \
		{"interrupt-on-timeout", '\0', OPTION_FLAG, &(options).interrupt_on_timeout}, \
		{"record-timing", '\0', OPTION_FLAG, &(options).record_timing}, \
		{"no-record-timing", '\0', OPTION_FLAG, &(options).no_record_timing}, \
		{"parameters", 'p', OPTION_PAIRS, &(options).parameters}, \
		{"parameters-raw", 'r', OPTION_PAIRS, &(options).raw}, \
		{"parameters-file", 'f', OPTION_LIST, &(options).files}, \
		{"parameters-yaml", 'y', OPTION_LIST, &(options).yaml}, \
		{"parameters-base64", 'b', OPTION_LIST, &(options).base64}, \
		{"inject-input-path", '\0', OPTION_FLAG, &(options).inject_input_path}, \
		{"inject-output-path", '\0', OPTION_FLAG, &(options).inject_output_path}, \
		{"inject-paths", '\0', OPTION_FLAG, &(options).inject_paths}, \
		{"report-mode", '\0', OPTION_FLAG, &(options).report_mode}, \
		{"prepare-only", '\0', OPTION_FLAG, &(options).prepare_only}, \
		{"error-cells", '\0', OPTION_FLAG, &(options).error_cells}, \
		{"papermill-metadata", '\0', OPTION_FLAG, &(options).papermill_metadata}, \
		{"no-progress-bar", '\0', OPTION_FLAG, &(options).no_progress_bar}, \
		{"cwd", '\0', OPTION_TEXT, &(options).cwd}, \
	{ \
		"from-cell", '\0', OPTION_TEXT, &(options).from_cell \
	}

/* Their description for --help. */
#define NOTEBOOK_OPTION_HELP \
	"Options for a notebook:\n" \
	"      --inplace        write the notebook back to its file\n" \
	"      --allow-errors   go on after a cell that failed or ran out of time\n" \
	"      --allow-error-names NAME,...\n" \
	"                       go on after these exceptions\n" \
	"      --force-raise-errors\n" \
	"                       stop at every failure, whatever is tagged raises-exception\n" \
	"      --skip-tag TAG   do not run cells with this tag (default skip-execution)\n" \
	"      --interrupt-on-timeout\n" \
	"                       a cell that ran out of time counts as KeyboardInterrupt\n" \
	"      --record-timing, --no-record-timing\n" \
	"                       write into the notebook when each cell ran (default), or do not\n" \
	"      --from-cell N|ID with --session: go on at this cell; what is before it has run\n" \
	"  -p, --parameters NAME VALUE\n" \
	"                       a parameter: True, None, 5, 0.1 or text; may be repeated\n" \
	"  -r, --parameters-raw NAME TEXT\n" \
	"                       a parameter that is text whatever it looks like\n" \
	"  -f, --parameters-file FILE, -y, --parameters-yaml TEXT, -b, --parameters-base64 TEXT\n" \
	"                       parameters in JSON, or YAML if the Python has PyYAML\n" \
	"      --inject-paths, --inject-input-path, --inject-output-path\n" \
	"                       PAPERMILL_INPUT_PATH, PAPERMILL_OUTPUT_PATH as parameters\n" \
	"      --report-mode    hide the code in the notebook that is written\n" \
	"      --prepare-only   write the notebook with its parameters, run nothing\n" \
	"      --error-cells    mark the failing cell by papermill's two markdown cells\n" \
	"      --papermill-metadata\n" \
	"                       write what papermill writes into the metadata\n" \
	"      --cwd DIR        the same as --workspace DIR\n" \
	"      --no-progress-bar\n" \
	"                       do not show how far the notebook is\n"

/* The name of an option that was given and makes sense for a notebook only, without the dashes;
 * NULL when there is none. */
const char *notebook_options_given(const struct notebook_options *options);

/* Whether `name` is one of "A,B,C"; spaces round a name are passed over. */
bool notebook_options_listed(const char *names, const char *name);

#endif
