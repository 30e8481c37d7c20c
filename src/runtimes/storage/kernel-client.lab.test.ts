/** A persistent mount of a real kernel's NFS client in a virtual machine, which libnfs cannot test. */
import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { smallImage } from '../../../test/lab/qemu-lab.ts'
import { startStorageLab, whyNoStorageLab, type StorageLab, type StorageTap } from '../../../test/lab/storage-lab.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { smallImageArgs } from '../qemu/command-line.ts'
import type { FileServer } from './file-server.ts'
import { needs } from '../../../test/needs.ts'

needs('qemu', 'nfs')

const { signal } = new AbortController()
const machine =
  process.arch === 'arm64'
    ? { arch: 'arm64' as const, program: 'qemu-system-aarch64', type: 'virt' }
    : { arch: 'x64' as const, program: 'qemu-system-x86_64', type: 'q35' }
const hasQemu = ['/usr/bin', '/usr/local/bin'].some((at) => fs.existsSync(path.join(at, machine.program)))
const reason = whyNoStorageLab() ?? (hasQemu ? null : `${machine.program} is missing`)

const BUILD_MS = 300_000
const BOOT_MS = 120_000
const COMMAND_MS = 60_000
const VOLUME = 'vol-1'

describe.skipIf(reason !== null)(`a kernel that mounts a volume${reason === null ? '' : ` (${reason})`}`, () => {
  let lab: StorageLab
  let server: FileServer
  let guest: Guest
  let address: string

  beforeAll(async () => {
    lab = startStorageLab()
    server = await lab.open()
    await server.create(VOLUME, 1, signal)
    const tap = lab.addTap()
    address = tap.address
    guest = await startGuest(lab, tap)
  }, BUILD_MS + BOOT_MS)
  afterAll(async () => {
    await guest?.end()
    await lab?.close()
  })
  beforeEach(async () => {
    await server.setClients(VOLUME, [address], signal)
    const mount = `mkdir -p /mnt/v; grep -q /mnt/v /proc/mounts || mount -t nfs4 -o vers=4.1 ${lab.vip}:/${VOLUME} /mnt/v`
    const { code, output } = await guest.run(mount)
    if (code !== 0) throw new Error(`the guest could not mount: ${output}`)
  })

  test('writes files with owner and mode', async () => {
    const writing = await guest.run(
      'dd if=/dev/urandom of=/mnt/v/data bs=1M count=5 && chown 1234:5678 /mnt/v/data && chmod 640 /mnt/v/data && sync && md5sum /mnt/v/data',
    )
    expect(writing).toMatchObject({ code: 0 })
    const file = path.join(lab.folder, 'mnt', VOLUME, 'data')
    expect(writing.output).toContain(createHash('md5').update(fs.readFileSync(file)).digest('hex'))
    expect(fs.statSync(file)).toMatchObject({ uid: 1234, gid: 5678, mode: 0o100640, size: 5 * 1_048_576 })
  })

  test('keeps an open file across a restart of the daemon', async () => {
    expect(await guest.run('exec 9>/mnt/v/open && echo one >&9 && sync')).toMatchObject({ code: 0 })
    const pid = await waitFor('a daemon', () => lab.daemonPid())
    process.kill(pid, 'SIGKILL')
    expect(await guest.run('echo two >&9 && sync && exec 9>&- && cat /mnt/v/open')).toMatchObject({
      code: 0,
      output: 'one\ntwo',
    })
  })

  test('gets an error from a full volume', async () => {
    const folder = path.join(lab.folder, 'mnt', VOLUME)
    const { bavail, bsize } = fs.statfsSync(folder)
    // All but 16 MiB is filled from the host, which is faster than the emulated machine.
    execFileSync('fallocate', ['-l', String(bavail * bsize - 16 * 1_048_576), path.join(folder, 'filler')])
    const { code, output } = await guest.run('dd if=/dev/zero of=/mnt/v/more bs=1M count=32 conv=fsync')
    expect(code).not.toBe(0)
    expect(output).toContain('No space left on device')
    expect(await guest.run('rm /mnt/v/filler && echo fits > /mnt/v/more && cat /mnt/v/more')).toEqual({
      code: 0,
      output: 'fits',
    })
  })

  test.each([
    ['alone', []],
    ['while another stays', ['10.255.255.254']],
  ])('loses its mount and open files when it is removed %s', async (_, others) => {
    expect(await guest.run('echo mine > /mnt/v/mine && sync && exec 8</mnt/v/mine')).toMatchObject({ code: 0 })
    await server.setClients(VOLUME, others, signal)
    const drop = 'echo 3 > /proc/sys/vm/drop_caches'
    const read = await guest.run(`${drop}; cat <&8`)
    expect(read.code).not.toBe(0)
    expect(read.output).toMatch(/Permission denied|Stale/)
    expect((await guest.run('echo other > /mnt/v/other')).code).not.toBe(0)
    expect((await guest.run('ls /mnt/v')).output).not.toContain('mine')
    expect(
      await guest.run(`mkdir -p /mnt/w; mount -t nfs4 -o vers=4.1 ${lab.vip}:/${VOLUME} /mnt/w`),
    ).not.toMatchObject({
      code: 0,
    })
    // Granted again, the same mount works: file handles stay valid.
    await server.setClients(VOLUME, [address], signal)
    expect(await guest.run('exec 8<&-; cat /mnt/v/mine')).toMatchObject({ code: 0, output: 'mine' })
    expect((await guest.run('ls /mnt/v')).output).not.toContain('other')
  })
})

interface Guest {
  run(command: string): Promise<{ code: number; output: string }>
  end(): Promise<void>
}

/** The small image with a shell on its console. */
async function startGuest(lab: StorageLab, tap: StorageTap): Promise<Guest> {
  const image = await smallImage()
  const initrd = withShell(image.initrd, path.join(lab.folder, 'guest'))
  // Emulated: slower, but on some machines KVM hangs early in the boot.
  const options = {
    machine: machine.type,
    accel: 'tcg,tb-size=256',
    cpu: 'max',
    m: '384',
    serial: 'stdio',
    netdev: `tap,id=n0,ifname=${tap.name},script=no,downscript=no`,
    device: 'virtio-net-pci,netdev=n0,romfile=',
  }
  const args = Object.entries(options).flatMap(([name, value]) => [`-${name}`, value])
  args.push('-nodefaults', '-nographic')
  args.push(
    ...smallImageArgs(
      { ...image, initrd },
      { arch: machine.arch, accelerator: 'tcg' },
      `loglevel=1 berth.net=${tap.address}/24`,
    ),
  )
  const child = spawn('nsenter', [`--net=/run/netns/${tap.netns}`, machine.program, ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  return new ConsoleGuest(child).booted()
}

/** Appends a second archive: the kernel unpacks both, and later files win. */
function withShell(initrd: string, folder: string): string {
  fs.mkdirSync(path.join(folder, 'etc'), { recursive: true })
  fs.writeFileSync(path.join(folder, 'etc/inittab'), '::sysinit:/etc/rc\n::respawn:/bin/sh -c "stty -echo; exec sh"\n')
  const input = 'etc\netc/inittab\n'
  const more = execFileSync('cpio', ['-o', '-H', 'newc', '-R', '0:0', '--quiet'], { cwd: folder, input })
  const whole = path.join(folder, 'initrd')
  fs.writeFileSync(whole, Buffer.concat([fs.readFileSync(initrd), more]))
  return whole
}

class ConsoleGuest implements Guest {
  readonly #child: ChildProcess
  #output = ''
  #count = 0

  constructor(child: ChildProcess) {
    this.#child = child
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk: Buffer) => (this.#output += chunk.toString().replaceAll('\r', '')))
    }
  }

  async booted(): Promise<this> {
    try {
      await waitFor(
        () => `the guest's shell: ${this.#output}`,
        () => this.#output.endsWith('# '),
        BOOT_MS,
      )
    } catch (error) {
      await this.end()
      throw error
    }
    return this
  }

  async run(command: string): Promise<{ code: number; output: string }> {
    this.#count += 1
    const from = this.#output.length
    const mark = `=${this.#count}=`
    // The shell assembles the mark, so that the echoed command does not contain it.
    this.#child.stdin?.write(`{ ${command}; } 2>&1; echo "=""${this.#count}= $?"\n`)
    const match = await waitFor(
      () => `the end of ${command}: ${this.#output.slice(from)}`,
      // Including the prompt, which could otherwise appear within the output of the next command.
      () => new RegExp(`^([^]*?)\n?${mark} (\\d+)\n[^\n]*# $`).exec(this.#output.slice(from)) ?? undefined,
      COMMAND_MS,
    )
    return { code: Number(match[2]), output: (match[1] ?? '').trim() }
  }

  async end(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const ended = new Promise((resolve) => this.#child.once('exit', resolve))
    this.#child.kill('SIGKILL')
    await ended
  }
}
