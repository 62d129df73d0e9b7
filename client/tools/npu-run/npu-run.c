/* npu-run: a private npud with simulated NPUs for the time that one command runs. */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/tools/npu-run/check.h"
#include "client/tools/npu-run/program.h"
#include "client/tools/npu-run/repeat.h"
#include "proto/util/beside.h"
#include "proto/util/random.h"
#include "proto/util/lift_fd.h"
#include "proto/util/number_text.h"

/* As env(1), nohup(1) and timeout(1) have them. */
#define STATUS_NOT_EXECUTABLE 126
#define STATUS_NOT_FOUND      127

#define STATUS_NONE (-1) /* nothing to exit for yet */

#define READY_FD 3
#define END_MS   10000 /* npud ends in milliseconds: this much later it hangs */

#define TRACE_SIZE  "64M" /* of rings of a trace */
#define TRACE_WORDS 4     /* of npuctl trace, at most */

struct run {
    char **npud_argv;
    char **command;
    const char *runtime_dir;
    sigset_t mask;    /* as we were started with: the command gets it back */
    sigset_t ignored; /* by our caller, as nohup(1) does, or blocked: they do not end us */
    int signals;      /* signalfd */
    struct program npud;
    const char *trace; /* file that the trace is written to; NULL: none */
    const char *trace_size;
    int trace_fd;
    int events_fd;         /* file without a name: what npuctl trace stream writes */
    struct program stream; /* that one */
    struct check check;
    struct repeat repeat;
    char shuffle[40]; /* as an option of npud */
};

static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

static void print_usage(FILE *f)
{
    fputs("Usage: npu-run [OPTION]... [--] COMMAND [ARGUMENT]...\n"
          "Run COMMAND with simulated NPUs of its own: a private npud that no other\n"
          "process sees.\n"
          "\n"
          "  -d, --devices=N    number of NPUs (default 2, or what FILE says)\n"
          "  -c, --config=FILE  configuration of npud; without it no file is read\n"
          "  -s, --set=SECTION.KEY=VALUE\n"
          "                     one key of the configuration (npud --help); may be repeated\n"
          "      --restartable  npud comes back when it is killed\n"
          "      --strict       COMMAND cannot read device memory, as on hardware\n"
          "      --trace=FILE   write there what all streams and processes of COMMAND did, for\n"
          "                     Chrome's and Perfetto's viewers; as a page that shows it by\n"
          "                     itself if its name ends with .html\n"
          "      --trace-size=SIZE\n"
          "                     bytes of each process's and each NPU's ring of events, which are\n"
          "                     written to disk while COMMAND runs (default 64M)\n"
          "      --shuffle[=SEED]\n"
          "                     delay tasks, so that streams without an order meet in other\n"
          "                     ways; a seed that is printed does it again\n"
          "      --repeat=N     run COMMAND up to N times, until exit status or output differ\n"
          "      --check[=KIND,...]\n"
          "                     tell at the end what is wrong: race, init, free, leak,\n"
          "                     unfinished, wait, ignored (default all)\n"
          "      --check-host=any|seen\n"
          "                     any (default): what one thread has learned, all know; seen:\n"
          "                     only edges between threads that npud has seen\n"
          "      --check-report=FILE\n"
          "                     write that there as JSON; as SARIF if its name ends with .sarif\n"
          "      --check-suppressions=FILE\n"
          "                     do not tell what FILE describes; may be repeated\n"
          "      --check-write-suppressions=FILE\n"
          "                     write a suppression for each finding there\n"
          "      --check-exitcode=N\n"
          "                     exit status if COMMAND's is 0 and something is wrong (default 86)\n"
          "      --check-keep=DIRECTORY\n"
          "                     keep what the processes have written there, for npu-check\n"
          "  -v, --verbose      let npud log to stderr what it does; with --check, show all\n"
          "                     frames of each call\n"
          "  -V, --version      print the version and exit\n"
          "  -h, --help         print this and exit\n"
          "\n"
          "COMMAND and npuctl find npud through NPUD_SOCKET and NPUD_ADMIN_SOCKET in their\n"
          "environment. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on\n"
          "to COMMAND. npud ends after it. npud is taken from $NPUD_BINARY, else from beside\n"
          "npu-run, ../sbin, or PATH; its sockets are in a private directory under\n"
          "$XDG_RUNTIME_DIR, $TMPDIR or /tmp.\n"
          "\n"
          "Exit status: that of COMMAND; 128 + N when signal N killed it; 125 npud did not\n"
          "start or npu-run failed; 126 COMMAND cannot be run; 127 COMMAND is not found;\n"
          "86, or N, if that of COMMAND is 0 and --check has found something.\n",
          f);
}

/* --- where things are --- */

/*
 * A socket's address has room for few bytes: a directory that does not leave them cannot be used.
 */
static bool dir_usable(const char *dir)
{
    struct sockaddr_un addr;

    return dir && dir[0] == '/' &&
           strlen(dir) + sizeof("/npu-run-0123456789abcdef/admin.sock") <= sizeof(addr.sun_path) &&
           access(dir, W_OK | X_OK) == 0;
}

/* npud makes the directory and fails if it exists, so no other process can have prepared it. */
static const char *runtime_dir_choose(void)
{
    static char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    const char *const parents[] = {secure_getenv("XDG_RUNTIME_DIR"), secure_getenv("TMPDIR"),
                                   "/tmp"};
    uint64_t name;

    if (!random_fill(&name, sizeof(name)))
        return NULL;
    for (size_t i = 0; i < sizeof(parents) / sizeof(parents[0]); i++) {
        if (!dir_usable(parents[i]))
            continue;
        snprintf(path, sizeof(path), "%s/npu-run-%016llx", parents[i], (unsigned long long)name);
        return path;
    }
    return NULL;
}

/* What a npud that was killed has left behind; one that ended by itself has left nothing. */
static void runtime_dir_remove(const char *dir)
{
    char path[PATH_MAX];

    static const char *const names[] = {"npud.sock", "npud.sock.lock", "admin.sock",
                                        "admin.sock.lock"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
}

static const char *npud_find(void)
{
    static char path[BESIDE_PATH];
    const char *named = secure_getenv("NPUD_BINARY");

    return named && named[0] ? named : beside_find("npud", path);
}

/* True when fd becomes readable (or ends) within timeout. */
static bool wait_readable(int fd, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, timeout_ms) > 0;
}

/* --- signals --- */

/* A signal that is blocked arrives at the signalfd, also when it is ignored. */
static void note_ignored(struct run *run)
{
    struct sigaction action;

    run->ignored = run->mask;
    for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++)
        if (sigaction(forwarded[i], NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            sigaddset(&run->ignored, forwarded[i]);
}

static int signals_block(struct run *run)
{
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(forwarded) / sizeof(forwarded[0]); i++)
        sigaddset(&set, forwarded[i]);
    /*
     * The kernel reaps the children of a process that ignores SIGCHLD, and npu-run would lose the
     * status.
     */
    signal(SIGCHLD, SIG_DFL);
    if (sigprocmask(SIG_BLOCK, &set, &run->mask) < 0)
        return -errno;
    note_ignored(run);
    run->signals = signalfd(-1, &set, SFD_CLOEXEC);
    return run->signals < 0 ? -errno : 0;
}

static int signal_take(struct run *run, bool *from_terminal)
{
    struct signalfd_siginfo info;

    if (read(run->signals, &info, sizeof(info)) != sizeof(info))
        return 0;
    *from_terminal = info.ssi_code == SI_KERNEL;
    return (int)info.ssi_signo;
}

/*
 * What a terminal sends for ^C and ^\ has reached the command as well: a second one would look like
 * an impatient user.
 */
static void signal_forward(struct run *run, const struct program *command)
{
    bool from_terminal;
    int sig = signal_take(run, &from_terminal);

    if (sig && !(from_terminal && (sig == SIGINT || sig == SIGQUIT)))
        kill(command->pid, sig);
}

/* --- npud --- */

/*
 * npud is ours alone: no terminal whose ^C or hang-up reaches it, none of the descriptors that our
 * caller may wait to see closed, and no word to a service manager that waits for word from our
 * caller.
 */
static void npud_isolate(int ready)
{
    static const char *const manager[] = {"NOTIFY_SOCKET",  "LISTEN_FDS",    "LISTEN_PID",
                                          "LISTEN_FDNAMES", "WATCHDOG_USEC", "WATCHDOG_PID"};
    sigset_t none;
    int null;

    setsid();
    program_pass_fd(ready, READY_FD);
    null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    if (fcntl(STDERR_FILENO, F_GETFD) != 0) /* closed, or already reused by one of ours */
        dup2(null, STDERR_FILENO);
    close_range(READY_FD + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    for (size_t i = 0; i < sizeof(manager) / sizeof(manager[0]); i++)
        unsetenv(manager[i]);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void __attribute__((noreturn)) npud_exec(struct run *run, pid_t parent, int ready)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(STATUS_OWN_FAILURE); /* it died before the line above */
    npud_isolate(ready);
    execvp(run->npud_argv[0], run->npud_argv);
    warnx("%s: %s (set NPUD_BINARY to the path of npud)", run->npud_argv[0], strerror(errno));
    _exit(STATUS_OWN_FAILURE);
}

/* A signal that has arrived and ends us; 0: none. */
static int signal_to_end(struct run *run)
{
    bool from_terminal;
    int sig = signal_take(run, &from_terminal);

    return sig && !sigismember(&run->ignored, sig) ? sig : 0;
}

/* STATUS_NONE when clients can connect. There is no command yet that a signal could be for. */
static int npud_wait_ready(struct run *run, int ready)
{
    struct pollfd p[] = {{.fd = ready, .events = POLLIN}, {.fd = run->signals, .events = POLLIN}};
    char c = '\0';
    int sig;

    while (!p[0].revents || p[1].revents) {
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            return STATUS_OWN_FAILURE;
        sig = p[1].revents ? signal_to_end(run) : 0;
        if (sig)
            return 128 + sig;
    }
    if (read(ready, &c, 1) == 1 && c == '\n')
        return STATUS_NONE;
    warnx("npud did not start");
    return STATUS_OWN_FAILURE;
}

static int npud_start(struct run *run)
{
    pid_t parent = getpid(), pid;
    int ready[2], status;

    if (pipe2(ready, O_CLOEXEC) < 0) {
        warn("pipe");
        return STATUS_OWN_FAILURE;
    }
    pid = program_fork(&run->npud, "npud");
    if (pid == 0)
        npud_exec(run, parent, ready[1]);
    close(ready[1]);
    status = pid < 0 ? STATUS_OWN_FAILURE : npud_wait_ready(run, ready[0]);
    close(ready[0]);
    return status;
}

/* Returns npud's status. */
static int npud_end(struct run *run)
{
    pidfd_send_signal(run->npud.pidfd, SIGTERM, NULL, 0);
    if (!wait_readable(run->npud.pidfd, END_MS)) {
        warnx("npud (pid %d) does not end: killed", (int)run->npud.pid);
        pidfd_send_signal(run->npud.pidfd, SIGKILL, NULL, 0);
    }
    return program_reap(&run->npud);
}

static void npud_finish(struct run *run, bool was_ready)
{
    const char *kind;
    bool died;
    int status, number;

    if (run->npud.pidfd < 0)
        return;
    died = wait_readable(run->npud.pidfd, 0);
    status = died ? program_reap(&run->npud) : npud_end(run);
    runtime_dir_remove(run->runtime_dir);
    if (!was_ready)
        return; /* the call that failed has said why */
    kind = status > 128 ? "signal" : "exit status";
    number = status > 128 ? status - 128 : status;
    if (died)
        warnx("npud ended while the command ran (%s %d): its calls have failed since", kind,
              number);
    else if (status != 0)
        warnx("npud failed as it ended (%s %d)", kind, number);
}

/* In a child, before it becomes another program. */
static void set_surroundings(struct run *run)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/npud.sock", run->runtime_dir);
    setenv("NPUD_SOCKET", path, 1);
    snprintf(path, sizeof(path), "%s/admin.sock", run->runtime_dir);
    setenv("NPUD_ADMIN_SOCKET", path, 1);
    sigprocmask(SIG_SETMASK, &run->mask, NULL);
}

/* --- the trace --- */

/* In a child: npuctl trace with these words, in and out for what it reads and writes. */
static void __attribute__((noreturn))
trace_exec(struct run *run, const char *const words[], int in, int out)
{
    const char *argv[TRACE_WORDS + 3] = {"npuctl", "trace"};
    char path[BESIDE_PATH];
    const char *program = beside_find("npuctl", path);

    for (unsigned i = 0; i < TRACE_WORDS && words[i]; i++)
        argv[2 + i] = words[i];
    set_surroundings(run);
    program_pass_fd(in, STDIN_FILENO);
    program_pass_fd(out, STDOUT_FILENO);
    execvp(program, (char **)argv);
    warn("%s", program);
    _exit(STATUS_OWN_FAILURE);
}

/* True if npuctl has done it; else it has said why not. */
static bool trace_ask(struct run *run, const char *const words[])
{
    struct program npuctl = PROGRAM_NULL;
    pid_t pid = program_fork(&npuctl, "npuctl");

    if (pid == 0)
        trace_exec(run, words, run->events_fd, run->trace_fd);
    return pid > 0 && program_reap(&npuctl) == 0;
}

/* It lives until the trace ends: not with what a terminal sends, but with us. */
static bool trace_stream(struct run *run)
{
    static const char *const words[TRACE_WORDS] = {"stream"};
    pid_t parent = getpid(), pid = program_fork(&run->stream, "npuctl");

    if (pid == 0) {
        setsid();
        sigaddset(&run->mask, SIGTERM); /* npuctl unblocks it when it can end on it as it should */
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent)
            _exit(STATUS_OWN_FAILURE); /* it died before the line above */
        trace_exec(run, words, run->events_fd, run->events_fd);
    }
    return pid > 0;
}

/* Beside the trace, where there is room for that, too; or else where temporary files are. */
static int events_open(const char *trace)
{
    char path[PATH_MAX];
    int fd;

    snprintf(path, sizeof(path), "%.*s.npu-run-XXXXXX", PATH_MAX - 32, trace);
    fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) {
        snprintf(path, sizeof(path), "%s/npu-run-XXXXXX", getenv("TMPDIR") ?: "/tmp");
        fd = mkostemp(path, O_CLOEXEC);
    }
    if (fd < 0)
        warn("%s", path);
    else
        unlink(path);
    return fd;
}

/* The file is opened first: a run that takes hours is not to end with a name that cannot be. */
static int trace_begin(struct run *run)
{
    char size[64];
    const char *const words[TRACE_WORDS] = {"start", "--calls", size};

    if (!run->trace)
        return STATUS_NONE;
    run->trace_fd = open(run->trace, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (run->trace_fd < 0) {
        warn("%s", run->trace);
        return STATUS_OWN_FAILURE;
    }
    run->events_fd = events_open(run->trace);
    if (run->events_fd < 0)
        return STATUS_OWN_FAILURE;
    snprintf(size, sizeof(size), "--size=%s", run->trace_size ? run->trace_size : TRACE_SIZE);
    return trace_ask(run, words) && trace_stream(run) ? STATUS_NONE : STATUS_OWN_FAILURE;
}

/* Refused if the command has stopped it: what there is, is written. */
static void trace_stop(struct run *run)
{
    static const char *const words[TRACE_WORDS] = {"stop"};

    if (!trace_ask(run, words))
        pidfd_send_signal(run->stream.pidfd, SIGTERM, NULL, 0);
    if (program_reap(&run->stream) != 0)
        warnx("%s: the trace is not whole", run->trace);
}

static void trace_end(struct run *run)
{
    const char *words[TRACE_WORDS] = {"dump", "--from=-"};
    const char *found = check_findings(&run->check), *end;
    char findings[PATH_MAX + 32];
    unsigned n = 2;

    if (!run->trace)
        return;
    end = strrchr(run->trace, '.');
    trace_stop(run);
    if (found) {
        snprintf(findings, sizeof(findings), "--findings=%s", found);
        words[n++] = findings;
    }
    if (end && strcmp(end, ".html") == 0)
        words[n] = "--html";
    lseek(run->events_fd, 0, SEEK_SET);
    if (!trace_ask(run, words))
        warnx("%s: there is no trace", run->trace);
    close(run->events_fd);
    close(run->trace_fd);
}

/* --- the command --- */

static void __attribute__((noreturn)) command_exec(struct run *run)
{
    int error;

    set_surroundings(run);
    check_set_environment(&run->check);
    execvp(run->command[0], run->command);
    error = errno;
    warn("%s", run->command[0]);
    _exit(error == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE);
}

static int command_run(struct run *run)
{
    struct program command = PROGRAM_NULL;
    struct pollfd p[] = {{.fd = run->signals, .events = POLLIN}, {.events = POLLIN}};
    pid_t pid = program_fork(&command, run->command[0]);

    if (pid < 0)
        return STATUS_OWN_FAILURE;
    if (pid == 0)
        command_exec(run);
    p[1].fd = command.pidfd;
    while (p[1].revents == 0) {
        if (poll(p, 2, -1) > 0 && p[0].revents)
            signal_forward(run, &command);
    }
    return program_reap(&command);
}

/* --- command line --- */

static const struct option long_options[] = {
    {"devices", required_argument, NULL, 'd'},
    {"config", required_argument, NULL, 'c'},
    {"set", required_argument, NULL, 's'},
    {"restartable", no_argument, NULL, 1},
    {"strict", no_argument, NULL, 2},
    {"trace", required_argument, NULL, 3},
    {"trace-size", required_argument, NULL, 6},
    {"shuffle", optional_argument, NULL, 4},
    {"repeat", required_argument, NULL, 5},
    {"check", optional_argument, NULL, CHECK_OPTION_CHECK},
    {"check-host", required_argument, NULL, CHECK_OPTION_HOST},
    {"check-report", required_argument, NULL, CHECK_OPTION_REPORT},
    {"check-suppressions", required_argument, NULL, CHECK_OPTION_SUPPRESSIONS},
    {"check-write-suppressions", required_argument, NULL, CHECK_OPTION_WRITE_SUPPRESSIONS},
    {"check-exitcode", required_argument, NULL, CHECK_OPTION_EXIT_CODE},
    {"check-keep", required_argument, NULL, CHECK_OPTION_KEEP},
    {"verbose", no_argument, NULL, 'v'},
    {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

struct args {
    char **v;
    size_t n;
};

static void args_add(struct args *args, const char *option, const char *value)
{
    args->v[args->n++] = (char *)option;
    if (value)
        args->v[args->n++] = (char *)value;
}

/* Of an option that only prints: output that got lost is a failure. */
static int end_of_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    warn("cannot write");
    return STATUS_OWN_FAILURE;
}

/* What options_read() needs of options until it has seen all. */
struct options {
    struct args *args;
    const char *config;
    bool verbose;
};

/* STATUS_NONE, or what to exit with. `option` is of those without a case in option_read(). */
static int option_read_other(struct run *run, int option, int argc)
{
    switch (option) {
    case 'V':
        puts("npu-run " NPUD_VERSION);
        return end_of_output();
    case 'h':
        print_usage(stdout);
        return end_of_output();
    case '?':
        break;
    default:
        if (check_read_option(&run->check, option, optarg, argc))
            return STATUS_NONE;
    }
    fputs("Try 'npu-run --help'.\n", stderr);
    return STATUS_OWN_FAILURE;
}

/* Translates an option to those of npud. */
static int option_read(struct run *run, struct options *options, int option, int argc)
{
    uint64_t size;

    switch (option) {
    case 'd':
        args_add(options->args, "--devices", optarg);
        return STATUS_NONE;
    case 'c':
        options->config = optarg;
        return STATUS_NONE;
    case 's':
        args_add(options->args, "--set", optarg);
        return STATUS_NONE;
    case 1:
        args_add(options->args, "--restartable", NULL);
        return STATUS_NONE;
    case 2:
        args_add(options->args, "--set", "sim.strict=yes");
        return STATUS_NONE;
    case 3:
        run->trace = optarg;
        if (optarg[0] != '-')
            return STATUS_NONE;
        fputs("npu-run: --trace wants a file: --trace=FILE\nTry 'npu-run --help'.\n", stderr);
        return STATUS_OWN_FAILURE;
    case 6:
        run->trace_size = optarg;
        if (trace_size_read(optarg, &size))
            return STATUS_NONE;
        fprintf(stderr,
                "npu-run: --trace-size wants bytes, as 64M, of up to 4G, not \"%s\"\n"
                "Try 'npu-run --help'.\n",
                optarg);
        return STATUS_OWN_FAILURE;
    case 4:
        return repeat_read_shuffle(&run->repeat, optarg) ? STATUS_NONE : STATUS_OWN_FAILURE;
    case 5:
        return repeat_read_runs(&run->repeat, optarg) ? STATUS_NONE : STATUS_OWN_FAILURE;
    case 'v':
        options->verbose = true;
        run->check.verbose = true;
        return STATUS_NONE;
    default:
        return option_read_other(run, option, argc);
    }
}

/* In their order: for one key the last one wins. */
static int options_read(struct run *run, int argc, char **argv, struct args *args)
{
    struct options options = {.args = args};
    int c, status = STATUS_NONE;

    /* '+': what follows the command is the command's. */
    while (status == STATUS_NONE &&
           (c = getopt_long(argc, argv, "+d:c:s:vVh", long_options, NULL)) != -1)
        status = option_read(run, &options, c, argc);
    if (status != STATUS_NONE)
        return status;
    if (run->trace_size && !run->trace) {
        fputs("npu-run: --trace-size goes with --trace\nTry 'npu-run --help'.\n", stderr);
        return STATUS_OWN_FAILURE;
    }
    run->command = argv + optind;
    if (!run->command[0]) {
        fputs("npu-run: no command given\nTry 'npu-run --help'.\n", stderr);
        return STATUS_OWN_FAILURE;
    }
    args_add(args, "--config", options.config ? options.config : "/dev/null");
    args_add(args, options.verbose ? "--verbose" : "--quiet", NULL);
    return STATUS_NONE;
}

static int prepare_run(struct run *run, int argc, char **argv)
{
    /* No option gives npud more than two arguments, and ours alone are fewer than 16. */
    struct args args = {.v = calloc(2 * (size_t)argc + 16, sizeof(char *))};
    int status;

    if (!args.v)
        return STATUS_OWN_FAILURE;
    run->npud_argv = args.v;
    args_add(&args, npud_find(), NULL);
    status = options_read(run, argc, argv, &args);
    if (status != STATUS_NONE)
        return status;
    if (!repeat_draw_seed(&run->repeat))
        return STATUS_OWN_FAILURE;
    if (run->repeat.runs > 1)
        return repeat_run(&run->repeat, argv, optind, run->command);
    if (run->repeat.shuffles) {
        snprintf(run->shuffle, sizeof(run->shuffle), "sim.shuffle=%" PRIu64, run->repeat.shuffle);
        args_add(&args, "--set", run->shuffle);
    }
    run->runtime_dir = runtime_dir_choose();
    if (!run->runtime_dir) {
        warnx("neither $XDG_RUNTIME_DIR nor $TMPDIR nor /tmp is a writable directory with a "
              "short path");
        return STATUS_OWN_FAILURE;
    }
    args_add(&args, "--runtime-dir", run->runtime_dir);
    args_add(&args, "--ready-fd", "3");
    args_add(&args, "--die-with-parent", NULL);
    if (signals_block(run) < 0) {
        warn("signals cannot be caught");
        return STATUS_OWN_FAILURE;
    }
    return STATUS_NONE;
}

/* npud runs for as long as the command does. */
static int run_with_npud(struct run *run)
{
    int status = npud_start(run);
    bool ready = status == STATUS_NONE, judged = false;

    if (ready)
        status = trace_begin(run);
    if (status == STATUS_NONE) {
        status = command_run(run);
        check_judge(&run->check, &run->mask, run->trace != NULL);
        trace_end(run);
        judged = true;
    }
    npud_finish(run, ready);
    return judged ? check_end(&run->check, status) : check_give_up(&run->check, status);
}

int main(int argc, char **argv)
{
    struct run run = {.signals = -1,
                      .npud = PROGRAM_NULL,
                      .stream = PROGRAM_NULL,
                      .check = {.exit_code = CHECK_EXIT_CODE}};
    int status;

    occupy_standard_fds();
    /* npud and the command write there, too: each of our lines in one piece. */
    setvbuf(stderr, NULL, _IOLBF, 0);
    status = prepare_run(&run, argc, argv);
    if (status == STATUS_NONE && !check_begin(&run.check, &run.mask))
        status = STATUS_OWN_FAILURE;
    if (status == STATUS_NONE)
        status = run_with_npud(&run);
    check_free(&run.check);
    free(run.npud_argv);
    return status;
}
