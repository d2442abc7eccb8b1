/*
 * Asking PyYAML. See yaml.h.
 *
 * The cell prints one line of JSON: {"value": ...}, {"missing": true} or {"error": "..."}. Keys
 * become text by str(), as papermill prints them; floats that JSON cannot write are wrapped; what
 * JSON has no form for (sets, bytes) becomes its str().
 */
#include "cli/yaml.h"

#include <string.h>

#include "base/mem.h"
#include "cli/say.h"

static const char CODE[] =
	"def read(text):\n"
	"    import math\n"
	"    try:\n"
	"        import yaml\n"
	"    except ImportError:\n"
	"        return {'missing': True}\n"
	"    class Loader(yaml.SafeLoader):\n"
	"        pass\n"
	"    Loader.add_constructor('tag:yaml.org,2002:timestamp', Loader.construct_yaml_str)\n"
	"    def plain(value):\n"
	"        if isinstance(value, dict):\n"
	"            return {str(key): plain(item) for key, item in value.items()}\n"
	"        if isinstance(value, list):\n"
	"            return [plain(item) for item in value]\n"
	"        if isinstance(value, float) and not math.isfinite(value):\n"
	"            return {'" PARAMETERS_FLOAT "': str(value)}\n"
	"        if value is None or isinstance(value, (bool, int, float, str)):\n"
	"            return value\n"
	"        return str(value)\n"
	"    try:\n"
	"        return {'value': plain(yaml.load(text, Loader=Loader))}\n"
	"    except (yaml.YAMLError, ValueError, RecursionError) as error:\n"
	"        return {'error': ' '.join(str(error).split())}\n"
	"import json\n"
	"print(json.dumps(read(%s)))\n";

/* Takes the line apart. */
static int take_answer(const struct fh_result *result, const char *what, struct json **value,
		       struct err *err)
{
	cleanup_json struct json *answer = NULL;
	const char *error;

	if (result->status != FH_CELL_OK)
		return err_set(err, ERR_ENGINE, "%s could not be read: %s", what,
			       result->evalue ? result->evalue : "its session failed");
	answer = parameters_from_python(result->out, result->out_len, err);
	if (!answer)
		return err_wrap(err, "%s", what);
	if (json_get_bool(answer, "missing", false))
		return err_set(err, ERR_UNSUPPORTED,
			       "%s is no JSON, and YAML needs PyYAML in the Python that runs the "
			       "notebook: pip install pyyaml there (see --python), or give JSON",
			       what);
	error = json_get_string(answer, "error");
	if (error)
		return err_set(err, ERR_INVALID, "%s is no YAML: %s", what, error);
	*value = json_get(answer, "value") ? json_keep(json_get(answer, "value")) : NULL;
	return 0;
}

int yaml_read(const char *text, size_t len, const char *what, const struct begin_options *options,
	      struct json **value, struct err *err)
{
	const struct begin_options plain = {
		.python = options->python, .tier = options->tier, .policy = POLICY_OPTIONS_INIT};
	struct fh_result result = FH_RESULT_INIT;
	struct fh_error error = FH_ERROR_INIT;
	struct begin begin = BEGIN_INIT;
	cleanup_buf struct buf literal = BUF_INIT, code = BUF_INIT;
	const char *gap = strstr(CODE, "%s");
	int outcome;

	parameters_text_source(text, len, &literal);
	buf_append(&code, CODE, (size_t)(gap - CODE));
	buf_append(&code, buf_bytes(&literal), literal.len);
	buf_append_string(&code, gap + 2);
	if (begin_session(&begin, &plain, NULL, NULL, -1, err) != 0)
		return -1;
	outcome = fh_run(begin.session, buf_bytes(&code), code.len, NULL, &result, &error);
	outcome = outcome == 0 ? take_answer(&result, what, value, err) : say_take(err, &error);
	fh_result_release(&result);
	begin_finish(&begin, outcome != 0 && err->code == ERR_GONE);
	return outcome;
}
