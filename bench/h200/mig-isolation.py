"""Shows on a real GPU that the tenant of one MIG instance cannot disturb that of another (promise 42).

Run as root on a machine with an NVIDIA GPU that can be split and that nobody uses:

    python3 bench/h200/mig-isolation.py

It splits GPU 0 into two instances. On the first a program adds one to each number of a buffer, again and again, and checks
the sums. On the second, programs first fill all memory and then write to an address that is not theirs. The first must
keep its speed and its numbers. Only Python and the driver are needed.
"""

import ctypes
import json
import os
import re
import subprocess
import sys
import time

ADD = b"""
.version 7.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 numbers, .param .u32 count) {
  .reg .pred %outside; .reg .b32 %r<6>; .reg .b64 %d<4>;
  ld.param.u64 %d1, [numbers];
  ld.param.u32 %r1, [count];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %outside, %r5, %r1;
  @%outside bra done;
  mul.wide.u32 %d2, %r5, 4;
  add.s64 %d3, %d1, %d2;
  ld.global.u32 %r2, [%d3];
  add.u32 %r2, %r2, 1;
  st.global.u32 [%d3], %r2;
done:
  ret;
}
\0"""
COUNT = 64 * 1024 * 1024
MIB = 1024 * 1024
SECONDS = 6
children = []


class Driver:
    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuCtxCreate_v2", ctypes.byref(self.context), 0, device)

    def attempt(self, name, *arguments):
        return getattr(self.cuda, name)(*arguments)

    def call(self, name, *arguments):
        code = self.attempt(name, *arguments)
        if code != 0:
            raise RuntimeError(f"{name} answered {code}")

    def allocate(self, size):
        pointer = ctypes.c_uint64()
        code = self.attempt("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer if code == 0 else None

    def load(self):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ADD)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"add")
        return function

    def add(self, function, pointer, count):
        size = ctypes.c_uint32(count)
        arguments = (ctypes.c_void_p * 2)(ctypes.addressof(pointer), ctypes.addressof(size))
        blocks = (count + 255) // 256
        self.call("cuLaunchKernel", function, blocks, 1, 1, 256, 1, 1, 0, None, arguments, None)
        return self.attempt("cuCtxSynchronize")


def work(seconds):
    """Prints the rounds of each second, and whether all numbers are right."""
    driver = Driver()
    function, numbers = driver.load(), driver.allocate(COUNT * 4)
    driver.call("cuMemsetD32_v2", numbers, 0, ctypes.c_size_t(COUNT))
    print("ready", flush=True)
    rounds, per_second, end = 0, [], time.monotonic() + seconds
    while time.monotonic() < end:
        until, before = time.monotonic() + 1, rounds
        while time.monotonic() < until:
            code = driver.add(function, numbers, COUNT)
            if code != 0:
                raise RuntimeError(f"a round answered {code}")
            rounds += 1
        per_second.append(rounds - before)
    sums = (ctypes.c_uint32 * COUNT)()
    driver.call("cuMemcpyDtoH_v2", sums, numbers, ctypes.c_size_t(COUNT * 4))
    wrong = sum(1 for number in memoryview(sums).cast("B").cast("I")[::4097] if number != rounds)
    print(json.dumps({"rounds": rounds, "perSecond": per_second, "wrong": wrong}))


def fill():
    driver, blocks, size = Driver(), [], 256 * MIB
    while size >= MIB:
        block = driver.allocate(size)
        if block is None:
            size //= 2
        else:
            driver.call("cuMemsetD32_v2", block, 7, ctypes.c_size_t(size // 4))
            blocks.append(size)
    driver.call("cuCtxSynchronize")
    print(json.dumps({"filledMib": sum(blocks) // MIB}), flush=True)
    time.sleep(SECONDS)


def crash():
    driver = Driver()
    code = driver.add(driver.load(), ctypes.c_uint64(64), 256)
    print(json.dumps({"crashedWith": code}))


def smi(*arguments):
    done = subprocess.run(["nvidia-smi", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"nvidia-smi {' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done.stdout


def start(uuid, part):
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": uuid}
    child = subprocess.Popen([sys.executable, __file__, part], env=environment, stdout=subprocess.PIPE, text=True)
    children.append(child)
    return child


def join():
    """Makes one GPU of the instances again."""
    for arguments in (["mig", "-i", "0", "-dci"], ["mig", "-i", "0", "-dgi"], ["-i", "0", "-mig", "0"]):
        subprocess.run(["nvidia-smi", *arguments], stdout=subprocess.DEVNULL)


def compare():
    join()
    smi("-i", "0", "-mig", "1")
    try:
        smi("mig", "-i", "0", "-cgi", "9,9", "-C")
        worker_uuid, other_uuid = re.findall(r"UUID: (MIG-[\w-]+)", smi("-L"))[:2]
        folder = os.environ.get("OUT")
        alone = json.loads(start(worker_uuid, "alone").communicate()[0].split("\n")[1])
        worker = start(worker_uuid, "work")
        worker.stdout.readline()
        filler = start(other_uuid, "fill")
        filled = json.loads(filler.stdout.readline())
        if folder:
            fields = "uuid,pci.bus_id,memory.total,memory.used,utilization.gpu,power.draw,temperature.gpu,pstate,mig.mode.current,name"
            outputs = {"mig.xml": smi("-q", "-x"), "mig-list.txt": smi("-L"), "mig-report.txt": smi("-q", "-d", "ECC,ROW_REMAPPER")}
            outputs["mig-memory.txt"] = smi("-q", "-d", "MEMORY")
            outputs["mig.csv"] = smi(f"--query-gpu={fields}", "--format=csv,nounits")
            for name, text in outputs.items():
                with open(os.path.join(folder, name), "w") as file:
                    file.write(text)
        filler.communicate()
        crashes = [json.loads(start(other_uuid, "crash").communicate()[0]) for _ in range(3)]
        beside = json.loads(worker.communicate()[0])
        print(json.dumps({"alone": alone, "beside": beside, **filled, "crashes": crashes}, indent=1))
        if beside["wrong"] or not beside["rounds"] or any(not one["crashedWith"] for one in crashes):
            sys.exit("the instances are not isolated")
    finally:
        for child in children:
            child.kill()
            child.wait()
        join()



parts = {"alone": lambda: work(3), "work": lambda: work(3 * SECONDS), "fill": fill, "crash": crash}
parts[sys.argv[1]]() if len(sys.argv) > 1 else compare()
