/*
 * What may be asked of a sandbox on the command line: a file, and options for the common wishes.
 *
 * run, repl, pipe and sandbox share them. An option goes over the file: it replaces a value, and
 * adds to a list. What comes out is a policy as fumehood-policy(5) has it, of what was asked for
 * and nothing else; limits that the configuration has and nobody named here stay what they are.
 */
#ifndef FH_CLI_POLICY_OPTIONS_H
#define FH_CLI_POLICY_OPTIONS_H

#include "base/err.h"
#include "base/json.h"
#include "cli/options.h"

struct policy_options {
	const char *file;
	uint64_t memory_bytes; /* UINT64_MAX: not given; so the others */
	uint64_t disk_bytes;
	uint64_t processes;
	const char *cpus;
	const char *tier_floor;
	struct option_list read, write, net, env;
};

#define POLICY_OPTIONS_INIT \
	{ \
		.memory_bytes = UINT64_MAX, .disk_bytes = UINT64_MAX, .processes = UINT64_MAX \
	}

/* Rows of an option table for these; `options` is a struct policy_options variable. */
#define POLICY_OPTION_ROWS(options) \
	{"policy", '\0', OPTION_TEXT, &(options).file}, \
		{"memory", '\0', OPTION_SIZE, &(options).memory_bytes}, \
		{"processes", '\0', OPTION_COUNT, &(options).processes}, \
		{"disk", '\0', OPTION_SIZE, &(options).disk_bytes}, \
		{"cpus", '\0', OPTION_TEXT, &(options).cpus}, \
		{"read", '\0', OPTION_LIST, &(options).read}, \
		{"write", '\0', OPTION_LIST, &(options).write}, \
		{"allow-net", '\0', OPTION_LIST, &(options).net}, \
		{"env", '\0', OPTION_LIST, &(options).env}, \
	{ \
		"tier-floor", '\0', OPTION_TEXT, &(options).tier_floor \
	}

/* Their description for --help. */
#define POLICY_OPTION_HELP \
	"Sandbox (fumehood help sandbox, fumehood-policy(5)):\n" \
	"      --policy FILE    what is allowed, as JSON; the options below go over it\n" \
	"      --memory SIZE    memory of all processes together, such as 512M or 2G\n" \
	"      --processes N    processes and threads\n" \
	"      --disk SIZE      size of a private workspace\n" \
	"      --cpus N         processors that may be used at a time, such as 1.5\n" \
	"      --read PATH      show PATH read-only, at the same place; may be repeated\n" \
	"      --write PATH     show PATH read-write, at the same place; may be repeated\n" \
	"      --allow-net HOST[:PORTS],...\n" \
	"                       hosts that may be reached; *.example.org is every name below\n" \
	"      --env NAME[=VALUE]\n" \
	"                       set a variable, without =VALUE to its value here\n" \
	"      --tier-floor full|degraded\n" \
	"                       refuse to start with less than that\n"

/*
 * What was asked for: an object owned by the caller, NULL (and 0) when nothing was. A variable
 * without a value is null in it. ERR_USAGE for a wrong option, ERR_INVALID for a wrong file.
 */
int policy_options_read(const struct policy_options *options, struct json **policy,
			struct err *err);

#endif
