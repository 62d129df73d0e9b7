"""npud-device-plugin beside a real npud, with a kubelet that is played here over the real API: each
of the three restarts and dies, NPUs are lost and come back, and containers get what they may.

usage: device_plugin.py BUILD WORK     WORK/host: what install-on-host.sh has made
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import traceback

build, work = map(pathlib.Path, sys.argv[1:])
top = pathlib.Path(__file__).resolve().parents[2]
example = top / "examples/kubernetes"
sys.dont_write_bytecode = True
sys.path.insert(0, str(example))
sys.path.insert(0, str(top / "tests/run"))
import device_plugin_api as api  # noqa: E402
from kubelet import LIMIT, Kubelet  # noqa: E402

npuctl = work / "host/usr/bin/npuctl"
folder = work / "device-plugins"
cdi = work / "npud.json"
plugin_log = work / "plugin.log"
failed = 0
children = []


def report(good, name, why=""):
    global failed
    print(f"{'ok' if good else 'not ok'} {name}", flush=True)
    if not good:
        print(f"    {why}\n    " + plugin_log.read_text()[-3000:].replace("\n", "\n    "))
        failed = 1


def expect(name, wanted, got):
    report(wanted == got, name, f"{got!r} where {wanted!r} was expected")


# --- the three ---

class Npud:
    def __init__(self, *options):
        ready, done = os.pipe()
        self.process = subprocess.Popen(
            [build / "npud", "--config=/dev/null", "--quiet", f"--runtime-dir={work}/npud",
             f"--ready-fd={done}", *options], pass_fds=[done])
        children.append(self.process)
        os.close(done)
        assert os.read(ready, 1) == b"\n"
        os.close(ready)

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(LIMIT)
        shutil.rmtree(work / "npud", ignore_errors=True)  # of one that was killed


def await_list(kubelet, name, wanted):
    seen = kubelet.await_list(wanted)
    report(bool(seen) and seen[-1] == wanted, name, f"{seen} where {wanted} was expected")


def start_plugin(*options):
    with plugin_log.open("a") as log:
        children.append(subprocess.Popen(
            [sys.executable, example / "npud-device-plugin", f"--folder={folder}",
             f"--npuctl={npuctl}", f"--cdi={cdi}", *options], stdout=log, stderr=log))
    return children[-1]


def healthy(*numbers):
    return {str(n): ("Healthy",) for n in numbers}


def unhealthy(*numbers):
    return {str(n): ("Unhealthy",) for n in numbers}


def run_npuctl(*words):
    return json.loads(subprocess.run([npuctl, "--json", *words], check=True,
                                     capture_output=True, text=True).stdout)


def see(container):
    """What a program sees that has the environment which kubelet and the file of CDI make."""
    kind, _, name = container.cdi_devices[0].name.partition("=")
    spec = json.loads(cdi.read_text())
    assert spec["kind"] == kind and len(container.cdi_devices) == 1
    for mount in spec["containerEdits"]["mounts"]:
        path = mount["hostPath"]
        assert os.path.exists(path) and path.startswith((f"{work}/host/", f"{work}/npud/")), path
    edits = next(d["containerEdits"] for d in spec["devices"] if d["name"] == name)
    environment = dict(os.environ, PYTHONPATH=f"{build}/python3/dist-packages",
                       **{v.key: v.value for v in container.envs},
                       **dict(v.split("=", 1) for v in edits["env"]))
    return subprocess.run(
        [sys.executable, "-c", "import acl, os; print(acl.rt.get_device_count(), "
         "os.environ['ASCEND_RT_VISIBLE_DEVICES'])"], env=environment, check=True,
        capture_output=True, text=True).stdout.strip()


# --- what happens ---

def check_first_registration():
    npud = Npud("--devices=3")
    plugin = start_plugin()
    kubelet = Kubelet(folder)  # later than the plugin
    # By hand, from the interface: numbers of fields, and their types.
    expect("the plugin registers with a kubelet that comes later",
           b'\n\x07v1beta1\x12\tnpud.sock\x1a\x08npud/npu"\x02\x10\x01',
           kubelet.requests.get(timeout=LIMIT))
    expect("its options", (False, True), (kubelet.options.pre_start_required,
                                          kubelet.options.get_preferred_allocation_available))
    await_list(kubelet, "it lists three NPUs that are well", healthy(0, 1, 2))
    return npud, plugin, kubelet


def check_allocation(kubelet):
    expect("an NPU by its CDI name, as bytes",
           b"\n\x0e*\x0c\n\nnpud/npu=1", kubelet.allocate(["1"], decode=False))
    expect("three, as bytes",
           b"\n\x34\n\x22\n\x19ASCEND_RT_VISIBLE_DEVICES\x12\x050,1,2*\x0e\n\x0cnpud/npu=all",
           kubelet.allocate(["2", "0", "1"], decode=False))
    two = kubelet.allocate(["1"], ["2", "0"]).container_responses
    expect("two containers see what each was given", ["(1, 0) 1", "(2, 0) 0,2"],
           [see(container) for container in two])
    expect("an NPU that npud does not have", ("NOT_FOUND", "npud has no NPU '7'"),
           kubelet.refused(["0"], ["7"]))
    expect("nothing", ("INVALID_ARGUMENT", "no NPU is named"), kubelet.refused(["0"], []))
    expect("the lowest are preferred", ["0", "1"], kubelet.preferred(["2", "1", "0"], [], 2))
    expect("... beside what kubelet must have", ["2", "0"],
           kubelet.preferred(["0", "1", "2"], ["2"], 2))
    expect("PreStartContainer", api.PreStartContainerResponse(), kubelet.call("PreStartContainer"))


def check_lost_device(kubelet):
    rule = run_npuctl("inject", "lose-device", "--device", "1")["rule"]
    await_list(kubelet, "a lost NPU is unwell", healthy(0, 2) | unhealthy(1))
    expect("... and is not given",
           ("FAILED_PRECONDITION", "NPU 1 is lost, or npud is away"), kubelet.refused(["1"]))
    report(kubelet.allocate(["0"]), "... but the others are")
    subprocess.run([npuctl, "inject", "clear", str(rule)], check=True)
    await_list(kubelet, "it comes back", healthy(0, 1, 2))


def check_kubelet_restarts(kubelet, plugin):
    for name, leave in (("kubelet restarts", False), ("kubelet dies and comes back", True)):
        kubelet.end()
        if leave:  # a socket that nobody listens at
            with contextlib.suppress(FileExistsError):
                os.close(os.open(folder / "kubelet.sock", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        kubelet = Kubelet(folder, early=leave)
        kubelet.requests.get(timeout=LIMIT)
        await_list(kubelet, name, healthy(0, 1, 2))
    expect("the plugin has gone on", None, plugin.poll())
    return kubelet


def check_npud_restarts(npud, kubelet):
    npud.end(signal.SIGKILL)
    await_list(kubelet, "npud is killed: no NPU is well", unhealthy(0, 1, 2))
    expect("... and none is given", "FAILED_PRECONDITION", kubelet.refused(["0"])[0])
    npud = Npud("--devices=4")
    await_list(kubelet, "npud is back, with one more", healthy(0, 1, 2, 3))
    expect("... which containers get", ["(1, 0) 3"],
           [see(c) for c in kubelet.allocate(["3"]).container_responses])
    npud.end()
    npud = Npud("--devices=2")
    await_list(kubelet, "... and with two less", healthy(0, 1))
    expect("... which no container gets", "NOT_FOUND", kubelet.refused(["3"])[0])
    return npud


def check_plugin_ends(kubelet, plugin):
    plugin.kill()
    plugin.wait()
    await_list(kubelet, "the plugin is killed: kubelet hears of it", None)
    plugin = start_plugin()
    kubelet.requests.get(timeout=LIMIT)
    await_list(kubelet, "... and of the next one", healthy(0, 1))
    plugin.terminate()
    expect("a plugin that is told to end does", 0, plugin.wait(LIMIT))
    expect("... and leaves no socket", ["kubelet.sock"], [f.name for f in folder.iterdir()])
    await_list(kubelet, "... and kubelet hears of it", None)


def check_numa():
    """The fake of CUDA has NPUs with addresses on a bus."""
    library = build / "tests/gpu/libfake_cuda.so"
    for number, node in enumerate((1, 0, 1, -1)):
        place = work / f"sys/bus/pci/devices/0000:{0x10 + number:02x}:00.0"
        place.mkdir(parents=True)
        (place / "numa_node").write_text(f"{node}\n")
    # nesting: the fake is whose who has built it
    npud = Npud("--set=npud.backend=cuda", f"--set=vendor.library={library}",
                "--set=vendor.nesting=yes", "--set=vendor.environment=FAKE_CUDA_DEVICES=5")
    kubelet = Kubelet(folder)
    plugin = start_plugin(f"--sys={work}/sys")
    await_list(kubelet, "NUMA nodes of NPUs on a bus", {
        "0": ("Healthy", 1), "1": ("Healthy", 0), "2": ("Healthy", 1), "3": ("Healthy",),
        "4": ("Healthy",)})
    everything = ["0", "1", "2", "3", "4"]
    expect("two at one node are preferred", ["0", "2"], kubelet.preferred(everything, [], 2))
    expect("... the node that has one, for one", ["1"], kubelet.preferred(everything, [], 1))
    expect("... the node of what kubelet must have", ["2", "0"],
           kubelet.preferred(everything, ["2"], 2))
    expect("three are at no one node", 3, len(set(kubelet.preferred(everything, [], 3))))
    plugin.terminate()
    plugin.wait(LIMIT)
    kubelet.end()
    npud.end()


def check_wrong_use():
    def ends(*options):
        plugin = start_plugin(*options)
        status = plugin.wait(LIMIT)
        said = [line for line in plugin_log.read_text().splitlines() if line.startswith("npud-dev")]
        return status, said[-1]

    expect("a folder that is not there",
           (1, f"npud-device-plugin: {work}/none: No such file or directory"),
           ends(f"--folder={work}/none"))
    expect("an npuctl that is not there", (1, f"npud-device-plugin: {work}/none: No such file or "
           "directory"), ends(f"--npuctl={work}/none"))
    npud = Npud()
    expect("a file of CDI that cannot be written",
           (1, "npud-device-plugin: without the file of CDI no container gets an NPU"),
           ends(f"--cdi={work}/none/none/npud.json"))
    kubelet = Kubelet(folder, refuse=True)
    expect("a kubelet that refuses", (1, "npud-device-plugin: kubelet refuses: no plugins today"),
           ends())
    kubelet.end()
    npud.end()


def main():
    os.environ.update(NPUD_SOCKET=f"{work}/npud/npud.sock",
                      NPUD_ADMIN_SOCKET=f"{work}/npud/admin.sock",
                      LD_LIBRARY_PATH=f"{work}/host/lib")
    folder.mkdir()
    npud, plugin, kubelet = check_first_registration()
    check_allocation(kubelet)
    check_lost_device(kubelet)
    kubelet = check_kubelet_restarts(kubelet, plugin)
    npud = check_npud_restarts(npud, kubelet)
    check_plugin_ends(kubelet, plugin)
    kubelet.end()
    npud.end()
    check_numa()
    check_wrong_use()


try:
    main()
except BaseException:
    traceback.print_exc(file=sys.stdout)
    report(False, "the test was carried out")
finally:
    for child in children:
        child.kill()
    sys.stdout.flush()
    os._exit(failed)  # threads of gRPC may wait for what does not come
