/*
 * Which places: see confine.h.
 *
 * The files of an overlay are reached through the mount in its box. Another box has another mount,
 * whose files no rule can name that was made before; and a rule cannot be added later. So Landlock
 * does not hold the files of a keeper with an overlay, which is said in the session's first event.
 */
#include "keeper/confine.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"

enum { PLACES_MAX = 3 };

int session_confine(struct session *session, struct err *err)
{
	bool overlay = session->config.workspace_mode == WORKSPACE_OVERLAY;
	cleanup_fd int workspace =
		overlay ? -1 : open(session->config.workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
	cleanup_fd int null = open("/dev/null", O_PATH | O_CLOEXEC);
	struct confine_place places[PLACES_MAX] = {{.fd = session->dirfd, .write = true},
						   {.fd = null, .write = true}};
	struct confine_params params = {.places = places, .count = 2};

	if (null < 0)
		return err_sys(err, "/dev/null");
	if (overlay)
		params.without_files =
			"the mount of an overlay is another one in each box, and Landlock cannot "
			"be told of it later";
	if (workspace >= 0) /* that there is none, is told by the box */
		places[params.count++] = (struct confine_place){
			.fd = workspace, .write = session->config.workspace_mode == WORKSPACE_RW};
	return confine(&params, &session->confined, err);
}
