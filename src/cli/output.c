/*
 * Writing -o. See output.h.
 *
 * The file that is there when the command begins may be replaced, that is what -o says; one that
 * someone else has written while the command ran may not, and notebook/save knows the difference.
 */
#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/say.h"
#include "notebook/save.h"

int output_open(struct output *output, const char *path, struct err *err)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	const char *name = slash ? slash + 1 : path;
	cleanup_free char *folder = NULL;
	struct stat st;

	output->path = path;
	if (!path)
		return 0;
	if (strcmp(path, "-") == 0) {
		output->to_stdout = true;
		return 0;
	}
	folder = !slash          ? mem_string(".")
		 : slash == path ? mem_string("/")
				 : mem_copy(path, (size_t)(slash - path));
	output->dirfd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (output->dirfd < 0)
		return err_sys(err, "cannot write to %s", folder);
	if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
	    (fstatat(output->dirfd, name, &st, 0) == 0 && !S_ISREG(st.st_mode)))
		return err_set(err, ERR_INVALID, "%s is no file that can be replaced", path);
	if (faccessat(output->dirfd, ".", W_OK, 0) != 0)
		return err_sys(err, "cannot write to %s", folder);
	output->save = save_new(output->dirfd, name, true, err);
	return output->save ? 0 : -1;
}

void output_release(struct output *output)
{
	save_free(output->save);
	if (output->dirfd >= 0)
		close(output->dirfd);
	*output = (struct output)OUTPUT_INIT;
}

int output_write(struct output *output, const struct buf *bytes, struct err *err)
{
	bool moved = false;

	if (output->to_stdout)
		return file_write_all(STDOUT_FILENO, buf_bytes(bytes), bytes->len, err);
	if (save_write(output->save, buf_bytes(bytes), bytes->len, &moved, err) != 0)
		return err_wrap(err, "cannot write %s", output->path);
	if (moved)
		say("%s was changed by someone else meanwhile; the notebook is in %s beside it",
		    output->path, save_name(output->save));
	return 0;
}
