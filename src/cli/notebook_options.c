/*
 * Looking at the options of a notebook. See notebook_options.h.
 */
#include "cli/notebook_options.h"

#include <string.h>

const char *notebook_options_given(const struct notebook_options *options)
{
	const struct {
		const char *name;
		bool given;
	} all[] = {
		{"inplace", options->inplace},
		{"allow-error-names", options->allow_error_names != NULL},
		{"force-raise-errors", options->force_raise_errors},
		{"skip-tag", options->skip_tag != NULL},
		{"interrupt-on-timeout", options->interrupt_on_timeout},
		{"record-timing", options->record_timing},
		{"no-record-timing", options->no_record_timing},
		{"parameters", options->parameters.count > 0},
		{"parameters-raw", options->raw.count > 0},
		{"parameters-file", options->files.count > 0},
		{"parameters-yaml", options->yaml.count > 0},
		{"parameters-base64", options->base64.count > 0},
		{"inject-input-path", options->inject_input_path},
		{"inject-output-path", options->inject_output_path},
		{"inject-paths", options->inject_paths},
		{"report-mode", options->report_mode},
		{"prepare-only", options->prepare_only},
		{"error-cells", options->error_cells},
		{"papermill-metadata", options->papermill_metadata},
		{"no-progress-bar", options->no_progress_bar},
		{"from-cell", options->from_cell != NULL},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i].given)
			return all[i].name;
	return NULL;
}

bool notebook_options_listed(const char *names, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = names; at;) {
		const char *comma = strchr(at, ',');
		const char *end = comma ? comma : at + strlen(at);

		while (*at == ' ')
			at++;
		while (end > at && end[-1] == ' ')
			end--;
		if (len > 0 && (size_t)(end - at) == len && memcmp(at, name, len) == 0)
			return true;
		at = comma ? comma + 1 : NULL;
	}
	return false;
}
