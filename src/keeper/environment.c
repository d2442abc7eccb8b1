/*
 * What the interpreter finds in its environment besides what every guest has: the policy's
 * variables, those of the network, and the folder for packages.
 *
 * They are sent before a cell and not with the start of an interpreter: the network can come to a
 * session that lives, and its port is only known when the box is there. A guest that is forked and
 * one that starts cold are told in the same way. `environment_due` says that it has not been told
 * the latest.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "keeper/home.h"
#include "keeper/net.h"
#include "keeper/session.h"

static void add_policy_variables(const struct policy *policy, struct json *variables)
{
	for (const char *const *at = policy->env; at && *at; at++) {
		const char *end = strchr(*at, '=');
		cleanup_free char *name = end ? mem_copy(*at, (size_t)(end - *at)) : NULL;

		if (name)
			json_set_string(variables, name, end + 1);
	}
}

/* --- packages -----------------------------------------------------------------------------------
 *
 * What is installed in a session is the session's own. In a workspace that is, too, it can be
 * looked at beside the other files. A person's project is no place for it: it would stay there, and
 * what makes up a venv is what other programs run later (protect.h). Then it goes into the
 * session's directory, which the box shows at the same path; hosts that are allowed later, when the
 * box is there, have to do with /tmp.
 */

static bool is_workspace_own(const struct session *session)
{
	return session->config.workspace_mode != WORKSPACE_RO &&
	       (session->config.workspace_private ||
		session->config.workspace_mode == WORKSPACE_OVERLAY);
}

static char *packages_folder(const struct session *session)
{
	if (is_workspace_own(session))
		return mem_format("%s/.fumehood", box_workspace(session->box));
	return mem_string(session->packages ? session->packages : "/tmp/fumehood-packages");
}

int session_show_packages(struct session *session, struct err *err)
{
	char link[64], path[PATH_MAX];
	ssize_t len;

	if (session->packages)
		return 0;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", home_dirfd(session));
	len = readlink(link, path, sizeof(path));
	if (len < 0 || (size_t)len >= sizeof(path))
		return err_sys(err, "the session's directory");
	session->packages = mem_format("%.*s/packages", (int)len, path);
	session->own_paths[0] = session->packages;
	session->policy.own = session->own_paths;
	return 0;
}

int session_place_packages(struct session *session, struct err *err)
{
	const char *const *rules = session->policy.net;

	if (!rules || !*rules || is_workspace_own(session) || session->packages)
		return 0;
	if (mkdirat(home_dirfd(session), "packages", 0700) != 0 && errno != EEXIST)
		return err_sys(err, "cannot make a folder for packages");
	return session_show_packages(session, err);
}

void session_tell_environment(struct session *session)
{
	cleanup_json struct json *order = NULL;
	struct json *variables;

	if (!session->environment_due)
		return;
	variables = json_new_object();
	session->environment_due = false;
	net_add_variables(session, variables);
	add_policy_variables(&session->policy, variables); /* a person's own word is the last */
	order = json_new_object();
	json_set(order, "variables", variables);
	if (json_length(variables) == 0)
		return;
	if (net_is_on(session)) {
		cleanup_free char *folder = packages_folder(session);

		json_set_string(order, "packages", folder);
	}
	/* A guest that cannot be told is dead or dying: the cell that follows meets that too. */
	(void)session->engine->ops->set_environment(session->engine, order, NULL);
}
