/** The use of a rented host that is real except for its kernel and its GPUs. */
import { spawn } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeSshKeyPair } from '../../base/ssh-key-pair.ts'
import { startMetalLab, whyNoMetalLab, type MetalLab } from '../../../test/lab/metal-lab.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { metalAccess } from './access.ts'
import { metalRuntime } from './runtime.ts'
import { needs } from '../../../test/needs.ts'

needs('metal')

const reason = whyNoMetalLab()
const nvidiaSmi = `#!/bin/sh
case $1 in *=name) echo H100 ;; *) echo '0, 87, 1024, 81559, [N/A], 61' ;; esac
`

describe.skipIf(reason !== null)(`measuring a host${reason === null ? '' : ` (left out: ${reason})`}`, () => {
  let lab: MetalLab
  let folder: string
  const keys = makeSshKeyPair('tenant')
  const { signal } = new AbortController()

  beforeAll(async () => {
    lab = await startMetalLab({ hosts: 1, flavours: ['debian'] })
    folder = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-measured-'))
    fs.writeFileSync(path.join(folder, 'key'), keys.privateKey, { mode: 0o600 })
  })
  afterAll(async () => {
    await lab?.close()
    if (folder !== undefined) fs.rmSync(folder, { recursive: true })
  })

  test('reads CPU, memory, disk, network and GPUs, and whether the tenant uses it', async () => {
    const host = lab.hosts[0]
    if (host === undefined) throw new Error('there is no host')
    const install = 'mkdir -p /usr/local/sbin; printf %s "$1" > /usr/local/sbin/nvidia-smi; chmod 755 /usr/local/sbin/*'
    await host.exec(['sh', '-c', install, 'sh', nvidiaSmi])
    const { id, address, port, user, privateKey, hostKeyFingerprint: hostKey } = host
    const cpuCores = os.cpus().length
    const runtime = metalRuntime({
      access: metalAccess.parse({ address, port, user, privateKey, hostKey }),
      declared: { cpuCores, ramGb: os.totalmem() / 1_073_741_824, gpus: { count: 1, model: 'H100' }, tolerance: 0.1 },
      address: { hostname: id, publicIp: address, privateIp: address, sshPort: port },
      clusterSecret: 'a secret of tests',
      onLearnedHostKey: () => {},
    })
    const spec = {
      kind: 'bare-metal',
      name: 'one',
      gpuCount: 1,
      resources: { cpuModel: 'any', cpuCount: 2, ramGb: 16, storageGb: 100 },
      sshKeys: [keys.publicKey],
      ports: [],
      image: null,
    } as const
    const node = { index: 0, gpuIndexes: [0], peers: [{ hostname: id, privateIp: address }] }
    const workload = { id: 'm-1', tag: 'berth-lab-m-1', want: 'run', started: false, spec, node } as const
    await runtime.start(
      { ...workload, spec: { ...spec, sshKeys: [...spec.sshKeys], ports: [] }, disks: [], baseImage: null },
      () => {},
      signal,
    )
    const first = await runtime.measureHost('m-1', signal)
    // The first look has no rates.
    const noRates = { cpuPercent: null, networkRxBytesPerSecond: null, networkTxBytesPerSecond: null }
    expect(first.workloads).toMatchObject([{ id: 'm-1', ...noRates, active: [] }])
    const gpu = { index: 0, utilizationPercent: 87, memoryUsedMib: 1_024, powerWatts: null, temperatureCelsius: 61 }
    expect(first.gpus).toEqual([{ ...gpu, memoryTotalMib: 81_559 }])

    const options = ['BatchMode=yes', 'StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null']
    const argv = ['-F', '/dev/null', '-i', path.join(folder, 'key'), ...options.flatMap((one) => ['-o', one])]
    const session = spawn('ssh', [...argv, `tenant@${address}`, 'sleep 1000'], { stdio: 'ignore' })
    try {
      const used = await waitFor('the session of the tenant', async () => {
        const own = (await runtime.measureHost('m-1', signal)).workloads?.[0]
        return own?.active.includes('program') === true && own
      })
      expect(used.quietSeconds).toBe(0)
      expect(used.networkRxBytesPerSecond).toBeGreaterThan(0)
      expect(used.networkTxBytesPerSecond).toBeGreaterThan(0)
      expect(used.diskUsedMib).toBeGreaterThanOrEqual(0)
      expect(used.memoryTotalMib).toBeGreaterThan(used.memoryUsedMib ?? Number.POSITIVE_INFINITY)
    } finally {
      session.kill('SIGKILL')
      runtime.close()
    }
  })
})
