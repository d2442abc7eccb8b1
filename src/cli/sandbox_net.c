/*
 * See sandbox_net.h.
 */
#include "cli/sandbox_net.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/paths.h"
#include "cli/say.h"
#include "sandbox/netns.h"

enum { NAMESPACE_USER = 0, NAMESPACE_NET = 3 /* box_namespaces() */ };
enum { LISTENER = 3 /* where fumehood-proxy has it */ };

static void __attribute__((noreturn))
become_proxy(const char *program, const char *const *rules, int listener, pid_t parent)
{
	size_t count = 0;
	const char **argv;
	int nothing;

	while (rules[count])
		count++;
	argv = mem_zalloc((count + 2) * sizeof(*argv));
	argv[0] = "fumehood-proxy";
	for (size_t i = 0; i < count; i++)
		argv[i + 1] = rules[i];
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
		_exit(EXIT_FAILURE);
	/* Who reads our output waits for the program, and not for this process. */
	nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(nothing, STDOUT_FILENO) < 0)
		_exit(EXIT_FAILURE);
	if (listener == LISTENER ? fcntl(listener, F_SETFD, 0) < 0 : dup2(listener, LISTENER) < 0)
		_exit(EXIT_FAILURE);
	execv(program, (char *const *)argv);
	say("cannot start %s", program);
	_exit(EXIT_FAILURE);
}

int sandbox_net_open(struct sandbox_net *net, const struct box *box, const char *const *rules,
		     struct err *err)
{
	const int *namespaces = box_namespaces(box);
	const pid_t own = getpid();
	cleanup_free char *program = NULL;
	cleanup_fd int listener = -1;

	if (hosts_add_all(&net->hosts, rules, err) != 0)
		return -1;
	if (net->hosts.count == 0)
		return 0;
	if (!namespaces)
		return err_set(err, ERR_UNSUPPORTED,
			       "hosts can only be allowed in the tier \"full\": leave --allow-net "
			       "out, or see fumehood doctor for what is missing here");
	program = paths_helper("fumehood-proxy", err);
	if (!program)
		return -1;
	listener = netns_listen(namespaces[NAMESPACE_USER], namespaces[NAMESPACE_NET], &net->port,
				err);
	if (listener < 0)
		return -1;
	net->pid = fork();
	if (net->pid < 0) {
		net->pid = 0;
		return err_sys(err, "starting the proxy");
	}
	if (net->pid == 0)
		become_proxy(program, rules, listener, own);
	return 0;
}

void sandbox_net_close(struct sandbox_net *net)
{
	if (net->pid > 0) {
		(void)kill(net->pid, SIGKILL);
		(void)waitpid(net->pid, NULL, 0);
	}
	hosts_release(&net->hosts);
	*net = (struct sandbox_net)SANDBOX_NET_INIT;
}
