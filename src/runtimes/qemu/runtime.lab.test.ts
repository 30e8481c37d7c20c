/** Real machines: QEMU boots the small image. At most two run at a time. */
import fs from 'node:fs/promises'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { withProgram } from '../../../test/harness/docker-runtime.ts'
import { killProcess } from '../../../test/harness/leftover.ts'
import { fileDisk, openQemuLab, smallImage, whyNoQemu, type QemuLab } from '../../../test/lab/qemu-lab.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { systemClock } from '../../base/instant.ts'
import type { WorkloadStatus } from '../runtime.ts'
import type { QemuRuntime } from './runtime.ts'
import { needs } from '../../../test/needs.ts'

needs('qemu')

const why = whyNoQemu()
const never = new AbortController().signal
const BOOT_MS = 180_000

const WORD = `it's "quoted" $HOME\nand long`
/** Options that all tests with machine `one` can see. */
const program = {
  env: { WORD, PLAIN: 'yes', BERTH_GPUS: 'mine' },
  files: [
    { path: "/opt/it's/a", content: 'content\n\u00e4\n', mode: '0640' },
    { path: '/etc/motd', content: 'hello', mode: '0644' },
  ],
  onStart: 'echo "started with $PLAIN"; echo start >> /root/starts; exit 4',
  userData: '#!/bin/sh\necho "user data once"; echo once >> /root/once\n',
}

describe.skipIf(why !== undefined)(`virtual machines${why === undefined ? '' : ` (skipped: ${why})`}`, () => {
  let lab: QemuLab
  let runtime: QemuRuntime

  beforeAll(async () => {
    await smallImage()
    lab = await openQemuLab()
    runtime = lab.runtime({ gpus: [{ index: 0, name: 'NVIDIA H100, 80 GB', pciAddress: null }], shutdownMs: 1_000 })
  }, BOOT_MS)
  afterAll(() => lab.close())

  const find = async (id: string): Promise<WorkloadStatus | undefined> =>
    (await runtime.list(never)).find((one) => one.id === id)

  test('boots a machine with its name, keys and GPU description', { timeout: BOOT_MS }, async () => {
    const messages: string[] = []
    const one = withProgram(lab.workload('one'), program)
    await runtime.start({ ...one, node: { ...one.node, gpuIndexes: [0] } }, (message) => messages.push(message), never)
    expect(await find('one')).toEqual({
      id: 'one',
      tag: one.tag,
      state: 'running',
      sshUser: 'root',
      incarnation: expect.any(String),
      disks: [],
    })
    const inside = await lab.ssh(
      'one',
      'hostname; cat /root/.ssh/authorized_keys /etc/berth-gpus; echo mine > /root/kept',
    )
    const [type, blob] = lab.publicKey.split(' ')
    expect(inside).toBe(`host-one\n${type} ${blob}\nNVIDIA H100, 80 GB (simulated)\n`)
    expect(messages).toContain('starting the machine')
    // Login requires one of the given keys.
    await expect(lab.ssh('one', 'true', 'nobody')).rejects.toThrow(/Permission denied/)
  })

  test('has the environment, files and scripts of its order', async () => {
    expect(await lab.ssh('one', 'printf "%s" "$WORD"; sh -lc \'printf "[%s]" "$WORD"\'; cat /etc/environment')).toBe(
      `${WORD}[${WORD}]PLAIN="yes"\n`,
    )
    expect(await lab.ssh('one', "stat -c '%a %n' /opt/it\\'s/a; cat /opt/it\\'s/a /etc/motd")).toBe(
      "640 /opt/it's/a\ncontent\n\u00e4\nhello",
    )
    const logs = (): Promise<string> =>
      runtime
        .open({ kind: 'logs', workloadId: 'one', follow: false, tail: 1_000 }, never)
        .then(({ stream }) => text(stream))
    await waitFor('the start script in the log', async () => (await logs()).includes('onStart: exited with code 4'))
    expect(await logs()).toMatch(/user data once\r?\n[^]*started with yes/)
  })

  test('serves the console and published ports only', async () => {
    const logs = await runtime.open({ kind: 'logs', workloadId: 'one', follow: false, tail: 1_000 }, never)
    expect(await text(logs.stream)).toMatch(/berth: ready after [\d.]+ s as host-one/)
    await lab.ssh('one', '(echo hello | nc -l -p 8080 > /dev/null 2>&1 &)')
    // Connections before the server listens are closed.
    const hear = async (): Promise<string> => {
      const port = await runtime.open({ kind: 'port', workloadId: 'one', port: 8080 }, never)
      return text(port.stream)
    }
    expect(
      await waitFor('an answer of the guest', () =>
        hear().then(
          (text) => text || undefined,
          () => undefined,
        ),
      ),
    ).toBe('hello\n')
    await expect(runtime.open({ kind: 'port', workloadId: 'one', port: 9 }, never)).rejects.toThrow('Port 9')
    const terminal = { kind: 'terminal', workloadId: 'one', columns: 80, rows: 24, command: null } as const
    await expect(runtime.open(terminal, never)).rejects.toThrow('Connect with SSH')
    const follow = await runtime.open({ kind: 'logs', workloadId: 'one', follow: true, tail: 0 }, never)
    let followed = ''
    follow.stream.on('data', (chunk: Buffer) => (followed += chunk.toString()))
    await lab.ssh('one', 'echo "one more line" > /dev/console')
    await waitFor('the line on the console', () => followed.includes('one more line'))
    follow.stream.destroy()
  })

  test('shows the time of each line of the console, and finds lines', async () => {
    const logs = async (filter: object): Promise<string> => {
      const request = { kind: 'logs', workloadId: 'one', follow: false, tail: 1_000, ...filter } as const
      return text((await runtime.open(request, never)).stream)
    }
    // Times are noted every few seconds; a line whose time is not noted yet has the time at which it is read.
    const noted = (search: string): Promise<string> =>
      waitFor(`the time of "${search}"`, async () => {
        const askedAt = systemClock.now()
        const [line = ''] = (await logs({ search, timestamps: true })).split('\n')
        return Date.parse(line.split(' ')[0] ?? '') < askedAt ? line : undefined
      })
    const line = await noted('ONE MORE')
    expect(line).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z .*one more line/)
    await lab.ssh('one', 'echo "the newest line" > /dev/console')
    const newest = Date.parse((await noted('newest')).split(' ')[0] ?? '')
    expect(await logs({ since: newest })).toContain('newest line')
    const before = await logs({ until: newest })
    expect(before).toMatch(/berth: ready after[^]*one more line/)
    expect(before).not.toContain('newest line')
  })

  test('measures the CPUs, memory and disk of a machine', async () => {
    const [first] = await runtime.measure(never)
    expect(first).toMatchObject({ id: 'one', hasProgram: false, networkRxBytes: null })
    expect(first?.memoryUsedMib).toBeGreaterThan(10)
    expect(first?.memoryTotalMib).toBeGreaterThan(100)
    expect(first?.diskUsedMib).toBeGreaterThan(0)
    await lab.ssh('one', 'i=0; while [ $i -lt 2000 ]; do i=$((i + 1)); done')
    const [later] = await runtime.measure(never)
    expect(later?.cpuSeconds).toBeGreaterThan(first?.cpuSeconds ?? 0)
  })

  test('attaches a volume', async () => {
    await runtime.volumes.create({ id: 'vol-1', sizeGb: 1, want: 'there', made: false, reserved: false }, never)
    await runtime.volumes.create({ id: 'vol-1', sizeGb: 1, want: 'there', made: false, reserved: false }, never)
    expect(await runtime.volumes.list(never)).toEqual([{ id: 'vol-1', sizeGb: 1, usedGb: 0 }])
    await runtime.setDisks(lab.workload('one', { disks: [fileDisk('vol-1')] }), never)
    expect(await find('one')).toMatchObject({ state: 'running', disks: ['vol-1'] })
    const output = await lab.ssh('one', 'cat /sys/block/sda/size; grep -ao vol-1 /sys/block/sda/device/vpd_pg80')
    expect(output).toBe(`${2 * 1024 * 1024}\nvol-1\n`)
    await lab.ssh(
      'one',
      'mkfs.ext4 -q /dev/sda && mount /dev/sda /mnt && echo "of the volume" > /mnt/file && umount /mnt',
    )
    await expect(runtime.volumes.destroy('vol-1', never)).rejects.toThrow('in use')
  })

  test('finds running machines and their disks after an agent restart', async () => {
    const before = lab.pids('one')
    // Machines started from here on are emulated, even on hosts with KVM.
    runtime = lab.runtime({ accel: 'tcg' })
    expect(await find('one')).toMatchObject({ state: 'running', sshUser: 'root', disks: ['vol-1'] })
    expect(lab.pids('one')).toEqual(before)
    expect(await lab.ssh('one', 'cat /root/kept')).toBe('mine\n')
  })

  test('keeps the data of a volume across machines', { timeout: BOOT_MS }, async () => {
    const two = lab.workload('two', { disks: [fileDisk('vol-1')] })
    await runtime.start({ ...two, disks: [] }, () => {}, never)
    // A volume cannot be attached to both.
    await expect(runtime.setDisks(two, never)).rejects.toThrow(/lock/)
    expect(await find('two')).toMatchObject({ state: 'running', disks: [] })
    await runtime.setDisks(lab.workload('one'), never)
    expect(await find('one')).toMatchObject({ disks: [] })
    await runtime.setDisks(two, never)
    expect(await find('two')).toMatchObject({ disks: ['vol-1'] })
    expect(await lab.ssh('two', 'mount /dev/sda /mnt && cat /mnt/file && umount /mnt')).toBe('of the volume\n')
  })

  test('fails a machine that was shut down from inside, and does not restart it', async () => {
    let changes = 0
    const stop = runtime.watch(() => (changes += 1))
    await lab.ssh('two', 'poweroff')
    const failed = await waitFor('machine two to end', async () => {
      const workload = await find('two')
      return workload?.state === 'failed' ? workload : undefined
    })
    expect(failed).toMatchObject({ failure: 'powered_off', disks: [] })
    await waitFor('its process to be gone', () => lab.pids('two').length === 0)
    expect(changes).toBeGreaterThan(0)
    stop()
    await expect(runtime.start(lab.workload('two'), () => {}, never)).rejects.toMatchObject({ reason: 'powered_off' })
    await runtime.volumes.destroy('vol-1', never)
    expect(await runtime.volumes.list(never)).toEqual([])
  })

  test('restarts a machine that ended unobserved, with its disk and host key', { timeout: BOOT_MS }, async () => {
    const key = await lab.ssh('one', 'sha256sum /etc/dropbear/ed25519; sync')
    runtime.close()
    for (const pid of lab.pids('one')) killProcess(pid)
    await waitFor('QEMU to be gone', () => lab.pids('one').length === 0)
    runtime = lab.runtime()
    expect(await find('one')).toMatchObject({ state: 'ended' })
    for (const id of ['vol-2', 'vol-3'])
      await runtime.volumes.create({ id, sizeGb: 1, want: 'there', made: false, reserved: false }, never)
    const disks = [
      { ...fileDisk('vol-2'), path: '/data' },
      { ...fileDisk('vol-3'), readOnly: true },
    ]
    await runtime.start(lab.workload('one', { disks }), () => {}, never)
    expect(await find('one')).toMatchObject({ state: 'running', disks: ['vol-2', 'vol-3'] })
    expect(await lab.ssh('one', 'cat /root/kept')).toBe('mine\n')
    expect(await lab.ssh('one', 'sha256sum /etc/dropbear/ed25519')).toBe(key)
  })

  test('mounts its volumes when it boots, those that are read-only too, and sees them grow', async () => {
    // A kernel names disks in the order in which it finds them.
    const [device = '', type] = (await lab.ssh('one', 'grep " /data " /proc/mounts | cut -d" " -f1,3'))
      .trim()
      .split(' ')
    expect(type).toBe('ext4')
    const disk = path.basename(device)
    const readOnly = await lab.ssh('one', 'for d in /sys/block/sd*; do echo "${d##*/} $(cat $d/ro)"; done')
    const flags = new Map(
      readOnly
        .trim()
        .split('\n')
        .map((line) => line.split(' ') as [string, string]),
    )
    expect([flags.get(disk), [...flags.values()].toSorted()]).toEqual(['0', ['0', '1']])
    await lab.ssh('one', 'echo kept > /data/file && sync')
    await runtime.volumes.grow({ id: 'vol-2', sizeGb: 2, want: 'there', made: true, reserved: false }, never)
    expect(await runtime.volumes.list(never)).toContainEqual({ id: 'vol-2', sizeGb: 2, usedGb: 0 })
    await waitFor(
      'the larger disk',
      async () => (await lab.ssh('one', `cat /sys/block/${disk}/size`)) === `${4 * 1024 * 1024}\n`,
    )
    const copy = { id: 'vol-4', sizeGb: 2, want: 'there', made: false, reserved: false } as const
    await expect(runtime.volumes.create({ ...copy, copyOf: 'vol-2' }, never)).rejects.toThrow(/in use/)
    expect((await runtime.volumes.list(never)).map(({ id }) => id).sort()).toEqual(['vol-2', 'vol-3'])
  })

  test('turns a machine off, keeps its disk, and boots it from there again', { timeout: BOOT_MS }, async () => {
    await lab.ssh('one', 'echo stopped > /root/kept; sync')
    const before = await find('one')
    const startedAt = performance.now()
    await runtime.halt('one', never)
    expect(performance.now() - startedAt, 'it did not obey its power button').toBeLessThan(60_000)
    expect(lab.pids('one')).toEqual([])
    expect(await find('one')).toMatchObject({ state: 'ended' })
    // Another agent on the same host sees the same.
    await runtime.halt('one', never)
    const one = { ...lab.workload('one'), started: true, reboots: 1 }
    await runtime.start(one, () => {}, never)
    expect(await lab.ssh('one', 'cat /root/kept')).toBe('stopped\n')
    const after = await find('one')
    expect(after).toMatchObject({ state: 'running', reboots: 1 })
    expect(after?.incarnation).not.toBe(before?.incarnation)
    // The start script runs at every boot, user data only at the first.
    const starts = async () => (await lab.ssh('one', 'cat /root/starts')).split('\n').filter((line) => line === 'start')
    await waitFor('the start script of the third boot', async () => (await starts()).length === 3)
    expect(await lab.ssh('one', 'cat /root/once; printf %s "$PLAIN"')).toBe('once\nyes')
  })

  test('reboots a machine on request, in the same process', { timeout: BOOT_MS }, async () => {
    const boot = await lab.ssh('one', 'cat /proc/sys/kernel/random/boot_id')
    const pids = lab.pids('one')
    await runtime.reboot({ ...lab.workload('one'), reboots: 2 }, never)
    await waitFor(
      'the machine after its reboot',
      async () => {
        expect(await find('one')).toMatchObject({ state: 'running', reboots: 2 })
        return (await lab.ssh('one', 'cat /proc/sys/kernel/random/boot_id').catch(() => boot)) !== boot
      },
      BOOT_MS,
    )
    expect(lab.pids('one')).toEqual(pids)
    expect(await lab.ssh('one', 'cat /root/kept')).toBe('stopped\n')
  })

  test('reports a killed QEMU as crashed', async () => {
    for (const pid of lab.pids('one')) killProcess(pid)
    const failed = await waitFor('machine one to end', async () => {
      const workload = await find('one')
      expect(workload?.state).not.toBe('ended')
      return workload?.state === 'failed' ? workload : undefined
    })
    expect(failed).toMatchObject({ failure: 'crashed' })
  })

  test('stops without leaving a process or folder, also when repeated', async () => {
    for (const id of ['one', 'two', 'one', 'never-was']) await runtime.stop(id, never)
    expect(await runtime.list(never)).toEqual([])
    expect(lab.pids()).toEqual([])
    expect(await fs.readdir(path.join(lab.folder, 'engine/vms'))).toEqual([])
  })

  test('fails a machine that does not boot in time, with its last console output', { timeout: BOOT_MS }, async () => {
    runtime = lab.runtime({ accel: 'tcg', bootLimitMs: 1 })
    await expect(runtime.start(lab.workload('slow'), () => {}, never)).rejects.toMatchObject({
      reason: 'boot_timed_out',
    })
    const slow = await find('slow')
    expect(slow).toMatchObject({ state: 'failed', failure: 'boot_timed_out' })
    expect(slow?.message).toContain('console output')
    await runtime.stop('slow', never)
  })

  test('removes a machine that is stopped while it boots', async () => {
    runtime = lab.runtime({ accel: 'tcg' })
    const control = new AbortController()
    const started = runtime.start(lab.workload('early'), () => {}, control.signal)
    await waitFor('QEMU', () => lab.pids('early').length > 0)
    control.abort()
    await expect(started).rejects.toThrow(/abort|called off/)
    expect(await find('early')).toMatchObject({ state: 'starting' })
    await runtime.stop('early', never)
    expect(lab.pids()).toEqual([])
  })
})
