/** QEMU's arguments for one machine. Default devices are off; every device is listed here. */
import { existsSync } from 'node:fs'
import { NeverStarts } from '../runtime.ts'
import { MONITOR_SOCKET, type MachineFiles } from './machine-files.ts'
import { ROOT_SERIAL } from './small-image-root.ts'
import type { SmallImage } from './small-image.ts'

export const SSH_PORT = 22
/** The controller for volumes. */
export const DISK_BUS = 'disks.0'
export const SANDBOX = 'on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny'
/**
 * Changing the user needs system calls that the sandbox denies. They are safe here: the new user is unprivileged and
 * gains nothing by them.
 */
const SANDBOX_OF_USER = SANDBOX.replace('elevateprivileges=deny', 'elevateprivileges=allow')

export interface MachineShape {
  readonly id: string
  readonly files: MachineFiles
  readonly arch: 'x64' | 'arm64'
  readonly accelerator: 'kvm' | 'tcg'
  readonly memoryMib: number
  readonly cpus: number
  /** null: the machine boots from its own disk. */
  readonly smallImage: SmallImage | null
  readonly ports: readonly number[]
  /** No network access. */
  readonly isRestricted: boolean
  readonly isSandboxed: boolean
  /** The user and group that QEMU switches to after startup. null: our own. */
  readonly user: number | null
  readonly passthrough: readonly string[]
  /** Names of simulated GPUs; empty: none. */
  readonly simulatedGpus: string
}

const firmwares = [
  '/usr/share/AAVMF/AAVMF_CODE.fd',
  '/usr/share/qemu-efi-aarch64/QEMU_EFI.fd',
  '/usr/share/edk2/aarch64/QEMU_EFI.fd',
] as const
/**
 * An emulated processor does not speculate, so mitigations are useless. Self-tests of ciphers, clearing all memory that is
 * handed out, and rewriting code for one processor take seconds.
 */
const EMULATED_KERNEL =
  'mitigations=off lsm= audit=0 cryptomgr.notests initcall_blacklist=crypto_kdf108_init init_on_alloc=0 noreplace-smp'
/**
 * Firmware that only starts a kernel. The usual firmware also prepares for other operating systems, which takes an
 * emulated processor 0.6 s.
 */
const QUICK_FIRMWARE = '/usr/share/qemu/qboot.rom'
/** GICv2 is faster to emulate but supports only so many CPUs. */
const OLD_GIC_CPUS = 8

export function qemuProgram(arch: 'x64' | 'arm64'): string {
  return arch === 'arm64' ? 'qemu-system-aarch64' : 'qemu-system-x86_64'
}

export function commandLine(shape: MachineShape): string[] {
  const { files } = shape
  return [
    ['-name', `guest=${shape.id}`, '-nodefaults', '-no-user-config', '-display', 'none'],
    machineArgs(shape),
    ['-m', `${shape.memoryMib}M`, '-smp', String(shape.cpus)],
    // Keep QEMU after a guest shutdown, so that the shutdown is visible.
    ['-no-shutdown', '-pidfile', files.pid],
    ['-qmp', `unix:${MONITOR_SOCKET},server=on,wait=off`],
    // Append mode allows truncating the file while it is written.
    ['-chardev', `file,id=console,path=${escaped(files.console)},append=on`, '-serial', 'chardev:console'],
    ['-device', 'virtio-rng-pci'],
    disk('root', `file=${escaped(files.overlay)},format=qcow2,discard=unmap`, `serial=${ROOT_SERIAL},bootindex=1`),
    disk('seed', `file=${escaped(files.seed)},format=raw,readonly=on`, 'serial=berth-seed'),
    ['-device', 'virtio-scsi-pci,id=disks'],
    network(shape),
    bootArgs(shape),
    shape.passthrough,
    shape.simulatedGpus === '' ? [] : ['-fw_cfg', `name=opt/berth/gpus,string=${escaped(shape.simulatedGpus)}`],
    shape.user === null ? [] : ['-runas', `${shape.user}:${shape.user}`],
    shape.isSandboxed ? ['-sandbox', shape.user === null ? SANDBOX : SANDBOX_OF_USER] : [],
  ].flat()
}

function machineArgs({ arch, accelerator, cpus }: MachineShape): string[] {
  const accel = accelerator === 'kvm' ? 'kvm' : 'tcg,thread=multi,tb-size=256'
  if (arch === 'x64') {
    return ['-machine', 'q35', '-accel', accel, '-cpu', accelerator === 'kvm' ? 'host' : 'Nehalem']
  }
  const gic = accelerator === 'kvm' ? 'host' : cpus > OLD_GIC_CPUS ? '3' : '2'
  const cpu = accelerator === 'kvm' ? 'host' : 'cortex-a76'
  return ['-machine', `virt,gic-version=${gic}`, '-accel', accel, '-cpu', cpu]
}

function bootArgs(shape: MachineShape): string[] {
  const { arch, smallImage } = shape
  if (smallImage !== null) return smallImageArgs(smallImage, shape, 'loglevel=3 panic=10 berth.disk')
  if (arch === 'x64') return []
  const firmware = firmwares.find((file) => existsSync(file))
  if (firmware !== undefined) return ['-bios', firmware]
  throw new NeverStarts(
    'firmware_missing',
    'The host has no UEFI firmware for virtual machines: install the Debian package qemu-efi-aarch64.',
  )
}

/** Boots the small image. `words` are added to the kernel's command line. */
export function smallImageArgs(
  image: SmallImage,
  { arch, accelerator }: Pick<MachineShape, 'arch' | 'accelerator'>,
  words: string,
): string[] {
  const console = arch === 'arm64' ? 'ttyAMA0' : 'ttyS0'
  const boot = (extraWords: string): string[] => {
    const append = `console=${console} quiet ${words}${extraWords}`
    return ['-kernel', image.kernel, '-initrd', image.initrd, '-append', append]
  }
  if (accelerator === 'kvm') return boot('')
  const isQuick = arch === 'x64' && existsSync(QUICK_FIRMWARE)
  return [...(isQuick ? ['-bios', QUICK_FIRMWARE] : []), ...boot(` ${EMULATED_KERNEL}`)]
}

function disk(name: string, drive: string, device: string): string[] {
  return ['-drive', `if=none,id=${name},${drive}`, '-device', `virtio-blk-pci,drive=${name},${device}`]
}

/** Port 0: the host picks a free one, which QEMU reports. */
function network({ ports, isRestricted }: MachineShape): string[] {
  const inside = [...new Set([SSH_PORT, ...ports])]
  const forwards = inside.map((port) => `,hostfwd=tcp:127.0.0.1:0-:${port}`).join('')
  const netdev = `user,id=net${isRestricted ? ',restrict=on' : ''}${forwards}`
  return ['-netdev', netdev, '-device', 'virtio-net-pci,netdev=net,romfile=']
}

/** QEMU escapes commas by doubling them. */
function escaped(text: string): string {
  return text.replaceAll(',', ',,')
}
