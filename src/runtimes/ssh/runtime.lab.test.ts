/** Tenants on hosts that are real except for their kernel: SSH access and verified cleaning. */
import { execFile } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import ssh2 from 'ssh2'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Workload } from '../../contract/agent.ts'
import { withProgram } from '../../../test/harness/docker-runtime.ts'
import { startMetalLab, whyNoMetalLab, type MetalLab, type MetalLabHost } from '../../../test/lab/metal-lab.ts'
import { tenantProgram } from '../../../test/harness/tenant-program.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { NeverStarts } from '../runtime.ts'
import { metalAccess, type MetalDeclared } from './access.ts'
import { CleaningFailed, type CleaningStep } from './cleaning.ts'
import { metalRuntime, type MetalRuntime, type MetalRuntimeOptions } from './runtime.ts'
import { needs } from '../../../test/needs.ts'

needs('metal')

const reason = whyNoMetalLab()
/** A reboot takes a second here, more on a busy machine: only a dead host may be power-cycled. */
const limits = { rebootMs: 60_000, switchAfterMs: 5_000 }
const SCRATCH = '/srv/scratch'

describe.skipIf(reason !== null)(`a bare-metal host${reason === null ? '' : ` (left out: ${reason})`}`, () => {
  let lab: MetalLab
  let folder: string
  const keys = ssh2.utils.generateKeyPairSync('ed25519')
  const runtimes: MetalRuntime[] = []
  const { signal } = new AbortController()

  beforeAll(async () => {
    lab = await startMetalLab({ hosts: 2, flavours: ['debian', 'busybox'] })
    for (const host of lab.hosts) await host.exec(['mkdir', '-m', '1777', SCRATCH, '-p'])
    folder = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-tenant-'))
    fs.writeFileSync(path.join(folder, 'key'), keys.private, { mode: 0o600 })
  })
  afterAll(async () => {
    for (const runtime of runtimes) runtime.close()
    await lab?.close()
    if (folder !== undefined) fs.rmSync(folder, { recursive: true })
  })

  const hostOf = (index: number): MetalLabHost => {
    const host = lab.hosts[index]
    if (host === undefined) throw new Error('no such host')
    return host
  }

  function runtimeOf(host: MetalLabHost, more: Partial<MetalRuntimeOptions> = {}, access: object = {}): MetalRuntime {
    const { address, port, user, privateKey, hostKeyFingerprint: hostKey } = host
    const runtime = metalRuntime({
      access: metalAccess.parse({ address, port, user, privateKey, hostKey, scratch: [SCRATCH], ...access }),
      declared: declaredHere(),
      address: { hostname: host.id, publicIp: address, privateIp: address, sshPort: port },
      clusterSecret: 'a secret of tests',
      onLearnedHostKey: () => {},
      limits,
      ...more,
    })
    runtimes.push(runtime)
    return runtime
  }

  const asTenant = (host: MetalLabHost, command: string): Promise<string> => sshAs(folder, host, command)

  test.each([
    ['with the programs of Debian', 0],
    ['with nothing but busybox', 1],
  ])('%s: removes everything that a tenant left before the next one starts', async (_, index) => {
    const host = hostOf(index)
    const steps: CleaningStep[] = []
    const runtime = runtimeOf(host, { onStep: (step) => steps.push(step) })
    expect(await runtime.check(signal)).toEqual([])
    expect(await runtime.list(signal)).toEqual([])
    const workload = withProgram(workloadOf('m-1', keys.public, [host]), tenantProgram)
    await runtime.start(workload, () => {}, signal)
    const incarnation = (await host.exec(['cat', '/proc/sys/kernel/random/boot_id'])).trim()
    const running = { id: 'm-1', tag: workload.tag, state: 'running', incarnation, sshUser: 'tenant', disks: [] }
    expect(await runtime.list(signal)).toEqual([running])
    const loop = 'nohup setsid sh -c "while :; do sleep 1; done" > /dev/null 2>&1 < /dev/null &'
    const output = await asTenant(host, `id -un; cat hosts; id -u; ${litter}; ${loop}`)
    const uid = output.split('\n')[2] ?? ''
    expect(output).toBe(`tenant\n${host.id} ${host.address} head\n${uid}\n`)
    await waitFor('the start script', async () => /code 4/.test(await asTenant(host, 'cat start.log')))
    expect(await asTenant(host, 'cat start.log; sh -lc \'echo "$WORD"\'; stat -c %a it; cat /tmp/there')).toBe(
      "berth: cannot write /etc/not-mine\nuser data with it's\nstarted with it's\nonStart: exited with code 4\nit's\n600\ncontent",
    )
    // A repeated start runs nothing again.
    await runtime.start(workload, () => {}, signal)
    expect(await asTenant(host, 'grep -c started start.log')).toBe('1\n')
    // Files that cron and a careless administrator create.
    await host.exec([
      'sh',
      '-c',
      `echo '* * * * * true' > /var/spool/cron/crontabs/tenant; mkdir -p /srv/other; touch /srv/other/f; chown ${uid} /srv/other/f /var/spool/cron/crontabs/tenant`,
    ])
    const boots = host.boots()
    await runtime.stop('m-1', signal)

    expect(steps).toEqual(['lock', 'unmount', 'remove', 'reboot', 'check', 'release'])
    expect(host.boots()).toBe(boots + 1)
    expect(await runtime.list(signal)).toEqual([])
    const places = `/home /tmp /var/tmp /dev/shm ${SCRATCH} /var/spool/cron/crontabs /srv/other /var/lib/berth`
    const names = 'grep -h ^tenant: /etc/passwd /etc/shadow /etc/group'
    const left = `find ${places} -mindepth 1; find / -xdev -user ${uid}; ${names}; true`
    expect(await host.exec(['sh', '-c', left])).toBe('')
    await expect(asTenant(host, 'true')).rejects.toThrow('Permission denied')

    await runtime.start(workloadOf('m-2', keys.public, [host]), () => {}, signal)
    expect(await asTenant(host, 'find / -xdev -user $(id -u) 2>/dev/null | grep -v ^/home/tenant; ls -A; true')).toBe(
      '.ssh\nhosts\n',
    )
    await runtime.stop('m-2', signal)
  })

  test('resumes a cleaning at any step after the server was killed', async () => {
    const host = hostOf(0)
    await runtimeOf(host).start(workloadOf('m-3', keys.public, [host]), () => {}, signal)
    await asTenant(host, 'echo mine > /tmp/left')
    for (const last of ['lock', 'unmount', 'remove', 'reboot', 'check', 'release'] as const) {
      const kill = new AbortController()
      const dying = runtimeOf(host, { onStep: (step) => step === last && kill.abort(new Error(`killed at ${last}`)) })
      await expect(dying.stop('m-3', kill.signal)).rejects.toThrow(`killed at ${last}`)
      dying.close()
      const seen = await waitFor('the host answers', () =>
        runtimeOf(host)
          .list(signal)
          .catch(() => undefined),
      )
      expect(seen.map(({ id }) => id)).toEqual(['m-3'])
    }
    const next = runtimeOf(host)
    await next.stop('m-3', signal)
    expect(await next.list(signal)).toEqual([])
    expect(await next.check(signal)).toEqual([])
  })

  test('does not delete files on mounts below a cleaned folder', async () => {
    for (const [index, host] of lab.hosts.entries()) {
      const id = `m-2${index}`
      await runtimeOf(host).start(workloadOf(id, keys.public, [host]), () => {}, signal)
      await asTenant(host, 'mkdir -p "/tmp/a folder/deep"')
      const mount = 'mkdir /tmp/kept && mount -t tmpfs tmpfs /tmp/kept && mkdir -p /tmp/kept/empty/deep'
      await host.exec(['sh', '-c', mount])
      const kill = new AbortController()
      const dying = runtimeOf(host, { onStep: (step) => step === 'reboot' && kill.abort(new Error('killed')) })
      await expect(dying.stop(id, kill.signal)).rejects.toThrow('killed')
      dying.close()
      expect(await host.exec(['find', '/tmp', '-mindepth', '1'])).toBe(
        '/tmp/kept\n/tmp/kept/empty\n/tmp/kept/empty/deep\n',
      )
      await runtimeOf(host).stop(id, signal)
    }
  })

  test('fails the cleaning of a read-only disk, keeps the tenant listed and locks it out', async () => {
    const host = hostOf(1)
    const reported: string[] = []
    const runtime = runtimeOf(host, { onQuarantine: (id, { step }) => reported.push(`${id} ${step}`) })
    await runtime.start(workloadOf('m-4', keys.public, [host]), () => {}, signal)
    expect(await asTenant(host, 'id -un')).toBe('tenant\n')
    await host.makeReadOnly()
    await expect(runtime.stop('m-4', signal)).rejects.toThrow(CleaningFailed)
    expect(reported).toEqual(['m-4 remove'])
    expect((await runtime.list(signal)).map(({ id }) => id)).toEqual(['m-4'])
    await expect(asTenant(host, 'true')).rejects.toThrow('Permission denied')
    await host.makeWritable()
    await runtime.clean(signal)
    expect(await runtime.check(signal)).toEqual([])
  })

  test('removes keys behind a symlink and ends open sessions', async () => {
    const host = hostOf(0)
    const runtime = runtimeOf(host)
    await runtime.start(workloadOf('m-16', keys.public, [host]), () => {}, signal)
    await asTenant(host, 'mv .ssh keys && ln -s keys .ssh')
    const session = asTenant(host, 'touch /tmp/in; sleep 1000').catch((error: unknown) => String(error))
    await waitFor('the session', async () => (await host.exec(['sh', '-c', 'ls /tmp/in 2> /dev/null; true'])) !== '')
    const kill = new AbortController()
    const dying = runtimeOf(host, { onStep: (step) => step === 'lock' && kill.abort(new Error('killed')) })
    await expect(dying.stop('m-16', kill.signal)).rejects.toThrow('killed')
    dying.close()
    expect(await session).toContain('Error')
    await expect(asTenant(host, 'true')).rejects.toThrow('Permission denied')
    await runtime.stop('m-16', signal)
    expect(await runtime.check(signal)).toEqual([])
  })

  test('cleans up after a tenant who removed the marker, also across a killed server', async () => {
    const host = hostOf(0)
    const runtime = runtimeOf(host)
    await runtime.start(workloadOf('m-14', keys.public, [host]), () => {}, signal)
    const uid = (await asTenant(host, `${litter}; id -u`)).trim()
    await host.exec(['rm', '/var/lib/berth/tenant'])
    expect(await runtime.list(signal)).toEqual([])
    const kill = new AbortController()
    const dying = runtimeOf(host, { onStep: (step) => step === 'unmount' && kill.abort(new Error('killed')) })
    await expect(dying.stop('m-14', kill.signal)).rejects.toThrow('killed')
    dying.close()
    // The marker was restored, so that the next server knows which tenant is being removed.
    expect((await runtime.list(signal)).map(({ id }) => id)).toEqual(['m-14'])
    const boots = host.boots()
    let isClean = false
    const stopping = runtime.stop('m-14', signal).finally(() => (isClean = true))
    // During the cleaning it stays listed, whether or not the host answers.
    const seen: string[] = []
    await waitFor('the host is restarted', async () => {
      const workloads = await runtime.list(signal)
      if (!isClean) seen.push(workloads.map(({ id }) => id).join())
      return isClean || host.boots() > boots
    })
    expect(new Set(seen)).toEqual(new Set(['m-14']))
    await stopping
    expect(host.boots()).toBe(boots + 1)
    expect(await runtime.list(signal)).toEqual([])
    expect(
      await host.exec([
        'sh',
        '-c',
        `find / -xdev -user ${uid}; ls -A /home ${SCRATCH}; grep ^tenant: /etc/passwd; true`,
      ]),
    ).toBe(`/home:\n\n${SCRATCH}:\n`)
    expect(await runtime.check(signal)).toEqual([])
  })

  test('fails the check of a host that lost hardware in the reboot, and keeps its marker', async () => {
    const host = hostOf(1)
    await runtimeOf(host).start(workloadOf('m-5', keys.public, [host]), () => {}, signal)
    const differing = runtimeOf(host, { declared: { ...declaredHere(), cpuCores: 77 } })
    await expect(differing.stop('m-5', signal)).rejects.toMatchObject({ step: 'check', message: /77 are declared/ })
    const boots = host.boots()
    const right = runtimeOf(host)
    expect((await right.list(signal)).map(({ id }) => id)).toEqual(['m-5'])
    // The tenant was removed and the host rebooted already, so only the check is left.
    await right.stop('m-5', signal)
    expect(host.boots()).toBe(boots)
    expect(await right.list(signal)).toEqual([])
  })

  test('refuses to start on a host that differs from its declaration, and lists the differences', async () => {
    const host = hostOf(0)
    const declared = { ...declaredHere(), ramGb: 4_000, gpus: { count: 8, model: 'H100' } }
    const runtime = runtimeOf(host, { declared })
    const starting = runtime.start(workloadOf('m-6', keys.public, [host]), () => {}, signal)
    await expect(starting).rejects.toThrow(/4000 GB are declared.*0 GPUs, but 8 are declared/)
    await expect(starting).rejects.toMatchObject({ reason: 'hardware_differs' })
    // The host stays taken until it is cleaned and passes the check.
    expect(await runtime.list(signal)).toMatchObject([{ id: 'm-6', state: 'starting' }])
    await runtimeOf(host).stop('m-6', signal)
  })

  test('refuses a new tenant on a host with another tenant or its leftovers', async () => {
    const host = hostOf(0)
    const reported: string[] = []
    const runtime = runtimeOf(host, { onQuarantine: (id, { step }) => reported.push(`${id} ${step}`) })
    await runtime.start(workloadOf('m-7', keys.public, [host]), () => {}, signal)
    const second = runtime.start(workloadOf('m-8', keys.public, [host]), () => {}, signal)
    await expect(second).rejects.toThrow(NeverStarts)
    await expect(second).rejects.toMatchObject({ reason: 'not_clean' })
    // The request is for m-8 but the marker says m-7: nothing is removed until a person has looked.
    await expect(runtime.stop('m-8', signal)).rejects.toThrow(/marker of another tenant: berth-lab-m-7/)
    expect(reported).toEqual(['m-8 check'])
    expect(await runtime.list(signal)).toMatchObject([{ id: 'm-7', state: 'running' }])
    await expect(asTenant(host, 'true')).rejects.toThrow('Permission denied')
    await host.exec(['sh', '-c', 'echo of nobody > /var/lib/berth/tenant'])
    await expect(runtime.stop('m-7', signal)).rejects.toThrow(/marker of the tenant on the host is broken/)
    expect(reported).toEqual(['m-8 check', 'm-7 check'])
    await host.exec(['rm', '/var/lib/berth/tenant'])
    const third = runtime.start(workloadOf('m-9', keys.public, [host]), () => {}, signal)
    await expect(third).rejects.toMatchObject({ reason: 'not_clean', message: /the user tenant/ })
    expect((await runtime.check(signal)).join()).toMatch(/the user tenant/)
    await runtime.stop('m-9', signal)
    expect(await runtime.check(signal)).toEqual([])
  })

  test('rejects a changed host key, and pins an unknown one once', async () => {
    const host = hostOf(0)
    const wrong = runtimeOf(host, {}, { hostKey: hostOf(1).hostKeyFingerprint })
    await expect(wrong.list(signal)).rejects.toThrow(/host key/)
    const learnt: string[] = []
    const fresh = runtimeOf(host, { onLearnedHostKey: (key) => learnt.push(key) }, { hostKey: undefined })
    expect(await fresh.list(signal)).toEqual([])
    expect(await fresh.list(signal)).toEqual([])
    expect(learnt).toEqual([host.hostKeyFingerprint])
  })

  test('connects the hosts of one rental, and the head logs in to the others', async () => {
    const hosts = [hostOf(0), hostOf(1)]
    const both = hosts.map((host) => runtimeOf(host))
    await Promise.all(both.map((runtime) => runtime.start(workloadOf('m-10', keys.public, hosts), () => {}, signal)))
    const list = `metal-1 ${hostOf(0).address} head\nmetal-2 ${hostOf(1).address} compute\n`
    expect(await asTenant(hostOf(1), 'cat hosts')).toBe(list)
    expect(await asTenant(hostOf(0), 'ssh metal-2 hostname')).toBe('metal-2\n')
    expect(await asTenant(hostOf(1), `ssh ${hostOf(0).address} hostname`)).toBe('metal-1\n')
    await Promise.all(both.map((runtime) => runtime.stop('m-10', signal)))
    for (const host of hosts) expect(await host.exec(['cat', '/etc/hosts'])).toBe('127.0.0.1 localhost\n')
  })

  test('mounts and unmounts volumes, mounts them again after a reboot, and keeps their data', async () => {
    const [first, second] = [hostOf(0), hostOf(1)]
    const runtime = runtimeOf(first)
    const plain = workloadOf('m-11', keys.public, [first])
    const source = { kind: 'nfs' as const, server: lab.bridgeAddress, path: '/volumes/v-1' }
    const withDisk = { ...plain, disks: [{ volumeId: 'v-1', label: 'data', sizeGb: 1, source }] }
    await runtime.start(plain, () => {}, signal)
    await runtime.setDisks(withDisk, signal)
    expect(await runtime.list(signal)).toMatchObject([{ disks: ['v-1'] }])
    await asTenant(first, 'echo kept > /mnt/data/file')
    await runtime.setDisks(plain, signal)
    expect(await runtime.list(signal)).toMatchObject([{ disks: [] }])
    expect(await first.exec(['ls', '/mnt'])).toBe('')
    await runtime.setDisks(withDisk, signal)
    await first.powerCycle()
    expect(await waitFor('the host answers', () => runtime.list(signal).catch(() => undefined))).toMatchObject([
      { state: 'running', disks: [] },
    ])
    await runtime.setDisks(withDisk, signal)
    // A program that uses the mount does not prevent unmounting.
    await asTenant(first, 'nohup setsid sh -c "cd /mnt/data; while :; do sleep 1; done" > /dev/null 2>&1 < /dev/null &')
    await runtime.setDisks(plain, signal)
    await runtime.setDisks(withDisk, signal)
    await runtime.stop('m-11', signal)
    const other = runtimeOf(second)
    const there = { ...withDisk, id: 'm-12', tag: 'berth-lab-m-12' }
    await other.start(there, () => {}, signal)
    await other.setDisks(there, signal)
    expect(await asTenant(second, 'cat /mnt/data/file')).toBe('kept\n')
    await other.stop('m-12', signal)
    expect(fs.readFileSync(path.join(lab.sharedFolder, 'volumes/v-1/file'), 'utf8')).toBe('kept\n')
  })

  test('power-cycles and cleans a host that no longer answers', async () => {
    const host = hostOf(0)
    const bmc = { kind: 'command', reset: [...host.resetCommand] }
    const runtime = runtimeOf(host, {}, { bmc })
    await runtime.start(workloadOf('m-13', keys.public, [host]), () => {}, signal)
    await host.exec([
      'sh',
      '-c',
      'kill $(cat /run/sshd.pid); for one in /proc/[0-9]*; do grep -q "^sshd" $one/comm && kill -9 $(basename $one); done; true',
    ])
    await expect(runtime.list(signal)).rejects.toThrow(host.address)
    const boots = host.boots()
    await runtime.stop('m-13', signal)
    // Once by power control and once by the cleaning; on a slow machine power control may act again.
    expect(host.boots()).toBeGreaterThanOrEqual(boots + 2)
    expect(await runtime.list(signal)).toEqual([])
  })

  test('answers logs, terminals and ports with a pointer to SSH', async () => {
    const opening = runtimeOf(hostOf(0)).open({ kind: 'port', workloadId: 'm-1', port: 0 }, signal)
    await expect(opening).rejects.toThrow('with SSH at its own address')
  })
})

/** Leaves files in every place that a tenant can write. */
const litter = [
  'mkdir -p .cache/x /var/tmp/deep',
  'for one in .cache/x/file "/tmp/a file" /var/tmp/deep/er /dev/shm/s; do echo mine > "$one"; done',
  `echo mine > ${SCRATCH}/data; ln -s /etc ${SCRATCH}/link; cp -r .cache ${SCRATCH}/more`,
].join('; ')

function declaredHere(): MetalDeclared {
  const cpuCores = (fs.readFileSync('/proc/cpuinfo', 'utf8').match(/^processor/gm) ?? []).length
  return { cpuCores, ramGb: os.totalmem() / 1_073_741_824, tolerance: 0.1 }
}

function workloadOf(id: string, key: string, hosts: readonly MetalLabHost[]): Workload {
  return {
    id,
    tag: `berth-lab-${id}`,
    want: 'run',
    started: false,
    spec: {
      kind: 'bare-metal',
      name: 'one',
      gpuCount: 8,
      resources: { cpuModel: 'any', cpuCount: 2, ramGb: 16, storageGb: 100 },
      sshKeys: [key],
      ports: [],
      image: null,
    },
    node: { index: 0, gpuIndexes: [], peers: hosts.map(({ id, address }) => ({ hostname: id, privateIp: address })) },
    disks: [],
    baseImage: null,
  }
}

async function sshAs(folder: string, host: MetalLabHost, command: string): Promise<string> {
  const options = ['BatchMode=yes', 'StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null', 'LogLevel=ERROR']
  const argv = ['-F', '/dev/null', '-i', path.join(folder, 'key'), ...options.flatMap((one) => ['-o', one])]
  const { stdout } = await promisify(execFile)('ssh', [...argv, `tenant@${host.address}`, command])
  return stdout
}
