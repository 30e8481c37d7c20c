/**
 * Bare-metal hosts for tests. Each has its own network namespace on a switch, processes, mounts, host name, disk (an
 * overlay over a small root built from programs of this machine) and SSH server. `reboot` in one really restarts it:
 * reboot(2) in a PID namespace ends that namespace, and the lab boots it again from the same disk.
 *
 * Safety: reboot(2) outside a PID namespace would restart the real machine. So the boot script continues only as
 * process 1 of another namespace, and the kernel's other ways to restart (/proc/sysrq-trigger, the settings in
 * /proc/sys) are masked or read-only inside. Not real: the kernel is shared, so no kernel boots, and our init generates
 * the boot id.
 */
import { execFile, execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { startLabSwitch, type LabCable, type LabSwitch } from './lab-switch.ts'
import { unmount } from '../harness/leftover.ts'
import { waitFor } from '../harness/wait.ts'

export interface MetalLabHost {
  readonly id: string
  readonly address: string
  readonly port: number
  readonly user: string
  readonly privateKey: string
  readonly hostKeyFingerprint: string
  /** Kills it and starts it again. */
  powerCycle(): Promise<void>
  powerOff(): Promise<void>
  powerOn(): Promise<void>
  /** A read-only root stays read-only across reboots. */
  makeReadOnly(): Promise<void>
  makeWritable(): Promise<void>
  /** Hides all but one of its CPUs, also across reboots, until they are restored. */
  loseProcessors(): Promise<void>
  findProcessors(): Promise<void>
  /** Runs a program inside as root and returns its output; throws when it fails. */
  exec(argv: readonly string[]): Promise<string>
  linkDown(): void
  linkUp(): void
  /** Number of boots. */
  boots(): number
  /** Resets its disk at the next boot. */
  wipe(): void
  /** A command that resets it from outside, like a power switch. */
  readonly resetCommand: readonly string[]
}

export interface MetalLab {
  readonly hosts: readonly MetalLabHost[]
  readonly bridgeAddress: string
  /** Stores the data of `mount -t nfs4` inside, where the kernel has no NFS client (see `mountNfs`). */
  readonly sharedFolder: string
  close(): Promise<void>
}

export interface MetalLabOptions {
  readonly hosts: number
  /** `busybox`: only busybox and the SSH server. `debian`: Debian's own programs as well. */
  readonly flavours?: readonly ('busybox' | 'debian')[]
}

const SSH_PORT = 22
const BOOT_MS = 50_000
const SHARED_MB = 16
const INIT = 'usr/sbin/lab-init'
/** If present, the host shows it as its CPU information. */
const CPUINFO = '/etc/cpuinfo'

/** null if it can run here, otherwise the reason in a sentence. */
export function whyNoMetalLab(): string | null {
  if (process.getuid?.() !== 0) return 'bare-metal hosts in namespaces need root'
  const missing = [...tools, 'busybox', 'sshd', 'ssh', 'ssh-keygen', 'mke2fs'].filter((one) => findProgram(one) === '')
  return missing.length === 0 ? null : `these programs are missing: ${missing.join(', ')}`
}

const tools = ['ip', 'unshare', 'nsenter', 'setpriv', 'mount', 'umount', 'losetup'] as const

export async function startMetalLab(options: MetalLabOptions): Promise<MetalLab> {
  const reason = whyNoMetalLab()
  if (reason !== null) throw new Error(reason)
  const undo: (() => void | Promise<void>)[] = []
  const close = async (): Promise<void> => {
    const faults: unknown[] = []
    for (const step of undo.splice(0).toReversed()) {
      try {
        await step()
      } catch (error) {
        faults.push(error)
      }
    }
    if (faults.length > 0) throw new AggregateError(faults, 'the lab was not taken down whole')
  }
  try {
    return { ...(await build(options, undo)), close }
  } catch (error) {
    await close()
    throw error
  }
}

type Undo = (() => void | Promise<void>)[]

async function build(options: MetalLabOptions, undo: Undo): Promise<Omit<MetalLab, 'close'>> {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-metal-'))
  undo.push(() => fs.rmSync(folder, { recursive: true }))
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'mode=755', 'tmpfs', folder])
  undo.push(() => unmount(folder))
  const shared = shareFolder(folder, undo)
  const network = startLabSwitch('metal')
  undo.push(() => network.close())
  const key = path.join(folder, 'operator')
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'operator', '-f', key])
  const flavours = options.flavours ?? ['debian', 'busybox']
  for (const flavour of new Set(flavours)) buildRoot(path.join(folder, `root-${flavour}`), flavour)
  const hosts = Array.from(
    { length: options.hosts },
    (_, index) => new LabHost(folder, network, index, flavours[index % flavours.length] ?? 'debian', shared.device),
  )
  for (const host of hosts) {
    undo.push(() => host.close())
    host.install()
  }
  await Promise.all(hosts.map((host) => host.powerOn()))
  return { hosts, bridgeAddress: network.address, sharedFolder: shared.folder }
}

/** One small file system that all hosts can mount at once: they share the kernel, so it stays consistent. */
function shareFolder(folder: string, undo: Undo): { device: string; folder: string } {
  const image = path.join(folder, 'shared.img')
  fs.closeSync(fs.openSync(image, 'w'))
  fs.truncateSync(image, SHARED_MB * 1_048_576)
  execFileSync('mke2fs', ['-q', '-t', 'ext4', '-O', '^has_journal', image])
  const device = execFileSync('losetup', ['--find', '--show', image], { encoding: 'utf8' }).trim()
  undo.push(() => void execFileSync('losetup', ['--detach', device]))
  const at = path.join(folder, 'shared')
  fs.mkdirSync(at)
  execFileSync('mount', ['-t', 'ext4', device, at])
  undo.push(() => unmount(at))
  return { device, folder: at }
}

class LabHost implements MetalLabHost {
  readonly id: string
  readonly address: string
  readonly port = SSH_PORT
  readonly user = 'root'
  readonly privateKey: string
  readonly resetCommand: readonly string[]
  hostKeyFingerprint = ''
  readonly #folder: string
  readonly #netns: string
  readonly #cable: LabCable
  readonly #lower: string
  readonly #device: string
  readonly #watcher: fs.FSWatcher
  #process: ChildProcess | undefined
  #boots = 0
  #isOn = false
  #wipe = false
  #isReadOnly = false
  #isClosed = false

  constructor(lab: string, network: LabSwitch, index: number, flavour: string, device: string) {
    this.id = `metal-${index + 1}`
    this.address = `${network.prefix}.${index + 11}`
    this.#netns = `${network.name}-${index + 1}`
    this.#cable = network.addNamespace(this.#netns, this.address)
    this.#folder = path.join(lab, this.id)
    this.#lower = path.join(lab, `root-${flavour}`)
    this.#device = device
    this.privateKey = fs.readFileSync(path.join(lab, 'operator'), 'utf8')
    for (const one of ['upper', 'work', 'root', 'switch'])
      fs.mkdirSync(path.join(this.#folder, one), { recursive: true })
    const button = path.join(this.#folder, 'switch', 'reset')
    this.resetCommand = ['cp', '/proc/sys/kernel/random/uuid', button]
    let last = ''
    this.#watcher = fs.watch(path.dirname(button), () => {
      const pressed = fs.existsSync(button) ? fs.readFileSync(button, 'utf8') : ''
      if (pressed === '' || pressed === last) return
      last = pressed
      // Callers that wait for it notice a failed start; closing the lab ends it.
      this.powerCycle().catch(() => {})
    })
  }

  /** This host's own files on its disk. */
  install(): void {
    const upper = path.join(this.#folder, 'upper')
    const ssh = path.join(upper, 'etc', 'ssh')
    fs.mkdirSync(ssh, { recursive: true })
    const kept = path.join(this.#folder, 'host_key')
    if (!fs.existsSync(kept)) execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', this.id, '-f', kept])
    fs.copyFileSync(kept, path.join(ssh, 'ssh_host_ed25519_key'))
    fs.chmodSync(path.join(ssh, 'ssh_host_ed25519_key'), 0o600)
    this.hostKeyFingerprint = execFileSync('ssh-keygen', ['-lf', kept], { encoding: 'utf8' }).split(' ')[1] ?? ''
    fs.mkdirSync(path.join(upper, 'root', '.ssh'), { recursive: true, mode: 0o700 })
    fs.copyFileSync(path.join(this.#folder, '..', 'operator.pub'), path.join(upper, 'root', '.ssh', 'authorized_keys'))
  }

  async powerOn(): Promise<void> {
    if (this.#isClosed) throw new Error(`${this.id} was taken away`)
    this.#isOn = true
    if (this.#process === undefined) this.#boot()
    const console = path.join(this.#folder, 'console')
    const what = (): string =>
      `${this.id} answers SSH; its console says ${fs.readFileSync(console, 'utf8').slice(-500)}`
    await waitFor(what, () => answersSsh(this.address, this.port), BOOT_MS)
  }

  async powerOff(): Promise<void> {
    this.#isOn = false
    const running = this.#process
    if (running === undefined) return
    const ended = new Promise((resolve) => running.once('exit', resolve))
    running.kill('SIGKILL')
    await ended
  }

  async powerCycle(): Promise<void> {
    await this.powerOff()
    await this.powerOn()
  }

  #boot(): void {
    if (this.#wipe) {
      this.#wipe = false
      for (const one of ['upper', 'work']) {
        fs.rmSync(path.join(this.#folder, one), { recursive: true })
        fs.mkdirSync(path.join(this.#folder, one))
      }
      this.install()
    }
    this.#boots += 1
    const log = fs.openSync(path.join(this.#folder, 'console'), 'a')
    const ours = fs.readlinkSync('/proc/self/ns/pid')
    const settings = [
      ours,
      this.#folder,
      this.#lower,
      this.id,
      randomUUID(),
      this.#isReadOnly ? 'ro' : 'rw',
      this.#device,
    ]
    const argv = [
      '--pdeathsig',
      'KILL',
      'nsenter',
      `--net=/run/netns/${this.#netns}`,
      'unshare',
      '--mount',
      '--propagation',
    ]
    argv.push(
      'private',
      '--pid',
      '--fork',
      '--kill-child',
      '--uts',
      '--ipc',
      'sh',
      '-c',
      bootScript,
      'boot',
      ...settings,
    )
    const running = spawn('setpriv', argv, { stdio: ['ignore', log, log], env: { PATH: process.env.PATH } })
    fs.closeSync(log)
    this.#process = running
    running.once('exit', (code, signal) => {
      this.#process = undefined
      // reboot(2) ends the first process of a PID namespace with SIGHUP, power-off with SIGINT.
      if (this.#isOn && (signal === 'SIGHUP' || code === 129)) this.#boot()
    })
  }

  async makeReadOnly(): Promise<void> {
    this.#isReadOnly = true
    await this.exec(['mount', '-o', 'remount,bind,ro', '/'])
  }

  async makeWritable(): Promise<void> {
    this.#isReadOnly = false
    await this.exec(['mount', '-o', 'remount,bind,rw', '/'])
  }

  async loseProcessors(): Promise<void> {
    const shown = `sed '/^$/q' /proc/cpuinfo > ${CPUINFO} && mount --bind ${CPUINFO} /proc/cpuinfo`
    await this.exec(['sh', '-c', shown])
  }

  async findProcessors(): Promise<void> {
    await this.exec(['sh', '-c', `umount /proc/cpuinfo && rm ${CPUINFO}`])
  }

  exec(argv: readonly string[]): Promise<string> {
    const init = this.#initPid()
    // Before it has its own root, a command would run in ours.
    if (init === undefined || !fs.existsSync(`/proc/${init}/root/${INIT}`)) {
      return Promise.reject(new Error(`${this.id} is not up`))
    }
    const into = ['--target', init, '--mount', '--uts', '--ipc', '--net', '--pid', '--root', '--wd', '--']
    return new Promise((resolve, reject) => {
      execFile(
        'nsenter',
        [...into, ...argv],
        { encoding: 'utf8', env: { PATH: insidePath } },
        (error, stdout, stderr) => {
          if (error === null) resolve(stdout)
          else reject(new Error(`${argv.join(' ')} on ${this.id}: ${stderr}`, { cause: error }))
        },
      )
    })
  }

  /** The first process inside, by its outer pid. */
  #initPid(): string | undefined {
    const pid = this.#process?.pid
    if (pid === undefined) return undefined
    const file = `/proc/${pid}/task/${pid}/children`
    const children = fs.existsSync(file) ? fs.readFileSync(file, 'utf8').trim() : ''
    return children === '' ? undefined : children.split(' ')[0]
  }

  linkDown(): void {
    this.#cable.unplug()
  }

  linkUp(): void {
    this.#cable.plug()
  }

  boots(): number {
    return this.#boots
  }

  wipe(): void {
    this.#wipe = true
  }

  async close(): Promise<void> {
    this.#watcher.close()
    this.#isClosed = true
    await this.powerOff()
  }
}

const insidePath = '/usr/sbin:/usr/bin:/sbin:/bin'

/** Arguments: our PID namespace, folder, lower root, name, boot id, ro or rw, device of the shared folder. */
const bootScript = `
[ $$ = 1 ] && [ -n "$1" ] && [ "$(readlink /proc/self/ns/pid)" != "$1" ] || { echo 'not in a PID namespace of its own'; exit 3; }
set -e
cd "$2"
mount -t overlay overlay -o "lowerdir=$3,upperdir=upper,workdir=work" root
cd root
mkdir -p old dev proc sys run mnt
mount -t tmpfs -o mode=755 tmpfs dev
for one in null zero full random urandom tty; do touch dev/$one; mount --bind /dev/$one dev/$one; done
touch dev/shared; mount --bind "$7" dev/shared
mkdir -p dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
ln -sf pts/ptmx dev/ptmx; ln -sf /proc/self/fd dev/fd
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t tmpfs -o mode=755 tmpfs run
mkdir -p run/sshd
echo "$5" > run/boot_id
chmod 444 run/boot_id
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount --bind run/boot_id proc/sys/kernel/random/boot_id
[ ! -e proc/sysrq-trigger ] || mount --bind dev/null proc/sysrq-trigger
hostname "$4"
pivot_root . old
umount -l /old
[ "$6" = rw ] || mount -o remount,bind,ro /
exec chroot . /bin/busybox sh /sbin/lab-init
`

/** Starts the SSH server, restarts when busybox signals init, and reaps orphans. */
const initScript = `#!/bin/sh
trap '/bin/busybox reboot -n -f' TERM
trap '/bin/busybox poweroff -n -f' USR2
[ ! -e ${CPUINFO} ] || mount --bind ${CPUINFO} /proc/cpuinfo
/usr/sbin/sshd
while :; do sleep 3600 & wait $!; done
`

/**
 * \`mount -t nfs4\` runs this. The kernels of test machines often have no NFS client; then it is a folder of the one
 * file system that all hosts can mount: \`server:/path\` is the folder \`path\` in it, whatever the server. It is made by
 * the first mount.
 */
const mountNfs = `#!/bin/sh
set -e
grep -q nfs4 /proc/filesystems && exec /sbin/mount.nfs4.real "$@"
hold=/run/hold.$$
mkdir "$hold"
mount -t ext4 /dev/shared "$hold"
trap 'umount "$hold"; rmdir "$hold"' EXIT
mkdir -p "$hold/\${1#*:}"
mount --bind "$hold/\${1#*:}" "$2"
`

/** The default key exchange takes an SSH client 0.14 s of CPU time, this one 0.02 s. */
const sshdConfig = `Port ${SSH_PORT}
HostKey /etc/ssh/ssh_host_ed25519_key
KexAlgorithms curve25519-sha256
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
UseDNS no
PrintMotd no
PidFile /run/sshd.pid
Subsystem sftp internal-sftp
`

const everywhere = ['sshd', 'ssh', 'ssh-keygen', 'bash', 'mount', 'umount', 'mount.nfs']
const ofDebian =
  'dash cat rm mkdir rmdir chown chmod id base64 mv cp sync ls touch stat tail head sort cut wc sleep env nproc find xargs grep sed mawk useradd userdel usermod groupdel ipcrm ipcs ipcmk ps fuser readlink tr dd timeout basename'.split(
    ' ',
  )

function buildRoot(root: string, flavour: 'busybox' | 'debian'): void {
  for (const one of [
    'usr/bin',
    'usr/sbin',
    'usr/lib',
    'usr/lib64',
    'etc',
    'root',
    'home',
    'tmp',
    'var/tmp',
    'var/lib',
  ]) {
    fs.mkdirSync(path.join(root, one), { recursive: true })
  }
  for (const one of ['var/spool/cron/crontabs', 'var/mail']) fs.mkdirSync(path.join(root, one), { recursive: true })
  for (const one of ['tmp', 'var/tmp']) fs.chmodSync(path.join(root, one), 0o1777)
  for (const one of ['bin', 'sbin', 'lib', 'lib64']) fs.symlinkSync(`usr/${one}`, path.join(root, one))
  const busybox = findProgram('busybox')
  fs.copyFileSync(busybox, path.join(root, 'usr/bin/busybox'))
  const copied = new Set(['busybox', 'reboot', 'poweroff', 'halt'])
  for (const name of flavour === 'debian' ? [...everywhere, ...ofDebian] : everywhere) {
    const found = findProgram(name)
    if (found === '') continue
    copyProgram(root, found)
    copied.add(name)
  }
  if (flavour === 'debian')
    for (const [link, to] of [
      ['sh', 'dash'],
      ['awk', 'mawk'],
    ] as const)
      linkOnce(root, link, to, copied)
  for (const name of execFileSync(busybox, ['--list'], { encoding: 'utf8' }).trim().split('\n')) {
    linkOnce(root, name, 'busybox', copied)
  }
  // -n: a sync would flush the real machine's disks.
  writeProgram(root, 'usr/sbin/reboot', '#!/bin/busybox sh\nexec /bin/busybox reboot -n -f\n')
  writeProgram(root, 'usr/sbin/poweroff', '#!/bin/busybox sh\nexec /bin/busybox poweroff -n -f\n')
  writeProgram(root, INIT, initScript)
  const real = path.join(root, 'usr/sbin/mount.nfs')
  if (fs.existsSync(real)) fs.renameSync(real, path.join(root, 'usr/sbin/mount.nfs4.real'))
  writeProgram(root, 'usr/sbin/mount.nfs4', mountNfs)
  writeSettings(root)
}

function writeSettings(root: string): void {
  const etc = (name: string, text: string): void => fs.writeFileSync(path.join(root, 'etc', name), text)
  etc(
    'passwd',
    'root:x:0:0:root:/root:/bin/sh\nsshd:x:100:65534::/run/sshd:/bin/false\nnobody:x:65534:65534::/:/bin/false\n',
  )
  etc('shadow', 'root:*:19000:0:99999:7:::\nsshd:!:19000::::::\n')
  fs.chmodSync(path.join(root, 'etc/shadow'), 0o600)
  etc('group', 'root:x:0:\nnogroup:x:65534:\n')
  etc('hosts', '127.0.0.1 localhost\n')
  etc('login.defs', 'UID_MIN 1000\nUID_MAX 60000\nGID_MIN 1000\nGID_MAX 60000\nUSERGROUPS_ENAB yes\n')
  etc('nsswitch.conf', 'passwd: files\ngroup: files\nshadow: files\nhosts: files\n')
  fs.mkdirSync(path.join(root, 'etc/ssh'))
  etc('ssh/sshd_config', sshdConfig)
}

function writeProgram(root: string, name: string, text: string): void {
  fs.writeFileSync(path.join(root, name), text, { mode: 0o755 })
}

function linkOnce(root: string, name: string, to: string, copied: Set<string>): void {
  if (copied.has(name)) return
  copied.add(name)
  fs.symlinkSync(to, path.join(root, 'usr/bin', name))
}

function findProgram(name: string): string {
  const folders = ['/usr/sbin', '/usr/bin', '/sbin', '/bin']
  return folders.map((one) => path.join(one, name)).find((one) => fs.existsSync(one)) ?? ''
}

/** The program and every library it needs. */
function copyProgram(root: string, program: string): void {
  const target = path.join(root, program)
  fs.copyFileSync(program, target)
  const needs = execFileSync('ldd', [program], { encoding: 'utf8' })
  for (const [, library = ''] of needs.matchAll(/(?:=> |^\s)(\/\S+) \(0x/gm)) {
    const to = path.join(root, library)
    fs.mkdirSync(path.dirname(to), { recursive: true })
    if (!fs.existsSync(to)) fs.copyFileSync(library, to)
  }
}

function answersSsh(address: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect({ host: address, port, timeout: 500 })
    const end = (answers: boolean): void => {
      socket.destroy()
      resolve(answers)
    }
    socket.once('data', (data) => end(data.toString('latin1').startsWith('SSH-')))
    socket.once('error', () => end(false))
    socket.once('timeout', () => end(false))
    socket.once('close', () => end(false))
  })
}
