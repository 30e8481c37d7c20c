/**
 * Bare-metal hosts with their own kernel, for tests that hosts sharing our kernel cannot serve: a real NFS client and
 * real reboots. Each is a virtual machine of the small image with a persistent disk and an address on a storage lab's
 * network. Emulated guests are slow, so a test should have no more than two.
 */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { chooseAccelerator } from '../../src/runtimes/qemu/accelerator.ts'
import { smallImageArgs } from '../../src/runtimes/qemu/command-line.ts'
import { ROOT_SERIAL } from '../../src/runtimes/qemu/small-image-root.ts'
import { removeFolder } from '../harness/leftover.ts'
import { run, sshOptions } from './machines.ts'
import type { SmallImage } from '../../src/runtimes/qemu/small-image.ts'
import { smallImage } from './qemu-lab.ts'
import type { StorageLab, StorageTap } from './storage-lab.ts'
import { pollDelay, waitFor } from '../harness/wait.ts'

export interface MetalGuest {
  readonly id: string
  readonly address: string
  readonly privateKey: string
  /** Its console output. */
  readonly processors: number
  readonly ramGb: number
  /** Runs a command as root; throws when it fails. */
  exec(command: string): Promise<string>
  /** Its current boot id. undefined: it does not answer. */
  bootId(): Promise<string | undefined>
}

export interface MetalGuests {
  readonly guests: readonly MetalGuest[]
  close(): Promise<void>
}

const BOOT_MS = 120_000
/** Short, for polling while it boots; a running guest may answer slowly if emulated. */
const [PROBE_S, CONNECT_S] = [3, 30]
const MEMORY_MIB = 256
/** Maximum boots of one guest; more means a boot loop. */
const MAX_REBOOTS = 20
const machine =
  process.arch === 'arm64'
    ? { arch: 'arm64' as const, program: 'qemu-system-aarch64', type: 'virt', cpu: 'cortex-a76' }
    : { arch: 'x64' as const, program: 'qemu-system-x86_64', type: 'q35', cpu: 'Nehalem' }

export async function startMetalGuests(lab: StorageLab, names: readonly string[]): Promise<MetalGuests> {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-guests-'))
  const running: Machine[] = []
  const takeDown = async (): Promise<void> => {
    await Promise.all(running.map((machine) => machine.end()))
    await removeFolder(folder)
  }
  /** Explains a timeout of a test: reports that the guest was gone. */
  const close = async (): Promise<void> => {
    await takeDown()
    for (const machine of running) machine.check()
  }
  try {
    const key = path.join(folder, 'operator')
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'operator', '-f', key])
    const image = await smallImage()
    const guests = names.map((id) => {
      const tap = lab.addTap()
      const files = path.join(folder, id)
      const initrd = withFiles(image.initrd, files, {
        'etc/hostname': `${id}\n`,
        'root/.ssh/authorized_keys': fs.readFileSync(`${key}.pub`, 'utf8'),
      })
      const started = startMachine({ files, tap, image: { ...image, initrd } })
      running.push(started)
      return { id, address: tap.address, console: consoleOf(files), machine: started }
    })
    return { guests: await Promise.all(guests.map((guest) => reach(guest, key))), close }
  } catch (error) {
    await takeDown()
    throw error
  }
}

interface MachineParts {
  readonly files: string
  readonly tap: StorageTap
  readonly image: SmallImage
}

interface Machine {
  /** Throws when it has exited for good. */
  check(): void
  end(): Promise<void>
}

const consoleOf = (files: string): string => path.join(files, 'console')

/**
 * A reboot starts a new QEMU: an emulator that boots a second time spends many seconds on invalidating translated code.
 */
function startMachine(parts: MachineParts): Machine {
  const args = argumentsOf(parts)
  let isEnding = false
  let reboots = 0
  let failure: string | undefined
  let child: ChildProcess
  const start = (): void => {
    // It ends with this process, however that ends.
    const inNetwork = ['nsenter', `--net=/run/netns/${parts.tap.netns}`, machine.program, ...args]
    child = spawn('setpriv', ['--pdeathsig', 'KILL', ...inNetwork], {
      stdio: ['ignore', 'inherit', 'inherit'],
    })
    child.once('exit', (code, signal) => {
      if (isEnding) return
      if (code === 0 && reboots < MAX_REBOOTS) {
        reboots += 1
        start()
        return
      }
      failure = code === 0 ? `it has rebooted ${MAX_REBOOTS} times and wants to again` : `QEMU ended: ${code ?? signal}`
      fs.appendFileSync(consoleOf(parts.files), `\n${failure}; it is not started any more\n`)
    })
  }
  start()
  return {
    check: () => {
      if (failure !== undefined) throw new Error(`${path.basename(parts.files)} is gone: ${failure}`)
    },
    end: () => {
      isEnding = true
      return endOf(child)
    },
  }
}

function argumentsOf({ files, tap, image }: MachineParts): string[] {
  const disk = path.join(files, 'disk.qcow2')
  execFileSync('qemu-img', ['create', '-q', '-f', 'qcow2', disk, '1G'])
  const accelerator = chooseAccelerator('auto').name
  const mac = ['52:54:00', ...Array.from(randomBytes(3), (byte) => byte.toString(16).padStart(2, '0'))].join(':')
  return [
    [
      '-nodefaults',
      '-no-user-config',
      '-no-reboot',
      '-display',
      'none',
      '-machine',
      machine.type,
      '-m',
      `${MEMORY_MIB}M`,
    ],
    accelerator === 'kvm'
      ? ['-accel', 'kvm', '-cpu', 'host']
      : ['-accel', 'tcg,thread=multi,tb-size=256', '-cpu', machine.cpu],
    ['-chardev', `file,id=console,append=on,path=${consoleOf(files)}`, '-serial', 'chardev:console'],
    ['-device', 'virtio-rng-pci'],
    ['-drive', `if=none,id=root,file=${disk},format=qcow2,cache=unsafe`],
    ['-device', `virtio-blk-pci,drive=root,serial=${ROOT_SERIAL}`],
    ['-netdev', `tap,id=net,ifname=${tap.name},script=no,downscript=no`],
    ['-device', `virtio-net-pci,netdev=net,romfile=,mac=${mac}`],
    smallImageArgs(
      image,
      { arch: machine.arch, accelerator },
      `loglevel=3 panic=10 berth.disk nokaslr norandmaps berth.net=${tap.address}/24`,
    ),
  ].flat()
}

/** A second archive behind the first: the kernel unpacks both, and the files in its root go to the disk. */
function withFiles(initrd: string, folder: string, files: Readonly<Record<string, string>>): string {
  const root = path.join(folder, 'root')
  for (const [name, text] of Object.entries(files)) {
    fs.mkdirSync(path.join(root, path.dirname(name)), { recursive: true, mode: 0o700 })
    fs.writeFileSync(path.join(root, name), text, { mode: name.startsWith('root/') ? 0o600 : 0o644 })
  }
  const input = Object.keys(files).join('\n')
  const more = execFileSync('cpio', ['-o', '-H', 'newc', '-R', '0:0', '--quiet'], { cwd: root, input })
  const whole = path.join(folder, 'initrd')
  fs.writeFileSync(whole, Buffer.concat([fs.readFileSync(initrd), more]))
  return whole
}

interface StartedGuest {
  readonly id: string
  readonly address: string
  readonly console: string
  readonly machine: Machine
}

async function reach(guest: StartedGuest, key: string): Promise<MetalGuest> {
  const { id, address } = guest
  // The first setting counts.
  const tell = async (command: string, connectS: number) => {
    guest.machine.check()
    return run('ssh', ['-o', `ConnectTimeout=${connectS}`, ...sshOptions(key), `root@${address}`, command])
  }
  const exec = async (command: string): Promise<string> => {
    const { code, out, error } = await tell(command, CONNECT_S)
    if (code !== 0) throw new Error(`${command} on ${id}: ${code} ${error}`)
    return out
  }
  const bootId = async (): Promise<string | undefined> => {
    // Constant polling would take CPU time from the booting guest.
    await pollDelay()
    const { code, out } = await tell('cat /proc/sys/kernel/random/boot_id', PROBE_S)
    return code === 0 ? out.trim() : undefined
  }
  const said = (): string => (fs.existsSync(guest.console) ? fs.readFileSync(guest.console, 'utf8').slice(-1_000) : '')
  await waitFor(() => `${id} answers SSH; its console says ${said()}`, bootId, BOOT_MS)
  const hardware = await exec("sed -n '/^MemTotal/p' /proc/meminfo; grep -c '^processor' /proc/cpuinfo")
  const [, kib, processors] = /^MemTotal:\s+(\d+) kB\n(\d+)\n/.exec(hardware)?.map(Number) ?? []
  if (kib === undefined || processors === undefined) throw new Error(`unknown hardware of ${id}: ${hardware}`)
  return {
    id,
    address,
    privateKey: fs.readFileSync(key, 'utf8'),
    processors,
    ramGb: Math.round((kib / 1_048_576) * 100) / 100,
    exec,
    bootId,
  }
}

async function endOf(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGKILL')
  await ended
}
