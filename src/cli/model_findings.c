/*
 * What fumehood doctor says of models: JSON lines {status, check, detail, effect?, cure?}, for
 * doctor_model.c, which asks this program.
 */
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/model_verb.h"
#include "cli/say.h"
#include "model/gguf.h"
#include "model/llama.h"

static void put(struct buf *out, const char *check, const char *detail, const char *effect,
		const char *cure)
{
	cleanup_json struct json *line = json_new_object();

	json_set_string(line, "status", effect ? "warning" : "ok");
	json_set_string(line, "check", check);
	json_set(line, "detail", json_new_string(detail, strlen(detail)));
	if (effect)
		json_set_string(line, "effect", effect);
	if (cure)
		json_set_string(line, "cure", cure);
	json_write(out, line);
	buf_append_char(out, '\n');
}

static void look_at_model(struct buf *out, const struct model_house *house)
{
	const char *chosen = settings_text(&house->settings, SETTING_ASK_MODEL);
	const char *url = settings_text(&house->settings, SETTING_ASK_URL);
	struct err err = ERR_INIT;
	cleanup_free char *path = model_file(house, NULL, &err);
	cleanup_free char *detail = NULL;
	struct gguf gguf;

	if (url) { /* then the model's name is that server's */
		detail = mem_format("asked is the server at %s", url);
		put(out, "model", detail, NULL, NULL);
		return;
	}
	if (!path && !chosen) {
		put(out, "model",
		    "none is here (optional: fumehood model pull, or fumehood ask --url)", NULL,
		    NULL);
		return;
	}
	if (!path || gguf_load(path, &gguf, &err) != 0) {
		put(out, "model", err.text, "fumehood ask has no model unless one is named",
		    "fumehood model list; fumehood model pull; fumehood model use NAME");
		return;
	}
	detail = mem_format("%s, %s, context %llu", path, gguf.quantisation,
			    (unsigned long long)gguf.context);
	put(out, "model", detail, NULL, NULL);
}

static void look_at_server(struct buf *out, const struct model_house *house)
{
	const char *chosen = settings_text(&house->settings, SETTING_LLAMA_SERVER);
	cleanup_llama struct llama llama = LLAMA_INIT;
	cleanup_free char *detail = NULL;
	struct err err = ERR_INIT;

	if (llama_find(&llama, chosen, &err) == 0 && llama.script) {
		detail = mem_format("xllamacpp %s, for any x86-64 or ARM; a " LLAMA_SERVER
				    " built for this machine is faster",
				    llama.version ? llama.version : "?");
		put(out, "llama.cpp server", detail, NULL, NULL);
	} else if (llama.program && !err.code) {
		put(out, "llama.cpp server", llama.program, NULL, NULL);
	} else if (chosen) {
		put(out, "llama.cpp server", err.text, "no model of this machine can be asked",
		    "set llama.server to a llama-server, or remove it: fumehood config");
	} else {
		put(out, "llama.cpp server",
		    "none is here (optional: fumehood model engine, or fumehood ask --url)", NULL,
		    NULL);
	}
}

int model_findings(const struct model_options *options, const char *name)
{
	cleanup_model_house struct model_house house;
	cleanup_buf struct buf out = BUF_INIT;
	struct err err = ERR_INIT;

	(void)options;
	(void)name;
	if (model_house_open(&house, &err) != 0) {
		put(&out, "models", err.text, "fumehood ask and fumehood model cannot be used",
		    "mend that file");
	} else {
		look_at_model(&out, &house);
		look_at_server(&out, &house);
	}
	return say_out(buf_bytes(&out), out.len);
}
