/*
 * fumehood slm: the original's service, by the program behind `fumehood serve` (serve_main.c),
 * which takes this one's place.
 */
#include "cli/command.h"

const struct command COMMAND_SLM = {
	.name = "slm",
	.summary = "serve instructions as SLM Code Interpreter does",
	.example = "fumehood slm",
	.help = "Usage: fumehood slm [options]\n"
		"\n"
		"The service of SLM Code Interpreter 0.1.0 for its clients, such as its extension "
		"of VS "
		"Code:\n"
		"GET /status and POST /execute {\"instruction\": ..., \"max_retries\": 3} on "
		"127.0.0.1, with the\n"
		"same replies. Each instruction is an ask (fumehood ask) with at most max_retries "
		"programs,\n"
		"which run in a sandbox. Pages of other sites are refused.\n"
		"\n"
		"  fumehood slm                               http://127.0.0.1:8085\n"
		"  fumehood slm --model qwen2.5-coder-0.5b\n"
		"  curl -H 'Content-Type: application/json' -d '{\"instruction\": \"2 + 2\"}' "
		"127.0.0.1:8085/execute\n"
		"\n"
		"Options:\n"
		"  -p, --port N         (default 8085; 0: any)\n"
		"  -m, --model MODEL    a name of fumehood model list, a GGUF file or a folder "
		"with "
		"one; else\n"
		"                       models.code_interpreter.path of config.yaml\n"
		"                       ($SLM_CODE_INTERPRETER_CONFIG, ./config.yaml, "
		"../config.yaml), else as\n"
		"                       fumehood ask\n"
		"      --url BASE       an OpenAI-compatible endpoint; --model is its name of the "
		"model then\n"
		"      --script FILE    answers from a file, for tests\n"
		"  -w, --workspace DIR[:rw|:ro|:overlay]\n"
		"                       what programs see; without it each instruction has a new "
		"workspace\n",
	.program = "fumehood-serve",
};
