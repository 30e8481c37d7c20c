/** Cloud drivers under kills: nothing is left at the cloud, nothing is made twice, and the ledger adds up. */
import { describe, expect, test } from 'vitest'
import { CrusoeSim } from './sim/clouds/crusoe/cloud.ts'
import { DenvrSim } from './sim/clouds/denvr/cloud.ts'
import { LambdaSim } from './sim/clouds/lambda/cloud.ts'
import { LatitudeSim } from './sim/clouds/latitude/cloud.ts'
import { VerdaSim } from './sim/clouds/verda/cloud.ts'
import { VoltageParkSim } from './sim/clouds/voltage-park/cloud.ts'
import type { Clock } from '../src/base/instant.ts'
import { crashRun, type CrashCloud } from './lab/cloud-crash.ts'
import { needs } from './needs.ts'

needs('kills')

const KILLS = Number.parseInt(process.env.BERTH_TEST_CLOUD_KILLS ?? '3', 10)
/** A kill takes two to five seconds, ten on a busy machine; the end of a run two minutes at most. */
const TIMEOUT_MS = 10 * 60_000 + KILLS * 15_000

const clouds: Readonly<Record<string, (clock: Clock) => CrashCloud>> = {
  crusoe: (clock) => {
    const sim = new CrusoeSim({ clock, listLagMs: 10_000 })
    return {
      provider: 'crusoe',
      credentials: sim.credentials,
      server: sim.server,
      orders: [{ gpuCount: 8, gpuType: 'h100', networkType: 'ethernet', region: 'us-central-1' }],
      writes: ['createInstance', 'deleteInstance', 'deleteDisk', 'createPartition', 'deletePartition'],
      leftovers: () => sim.leftovers(),
      launches: () => sim.launches(),
      bills: () => sim.bills(),
    }
  },
  denvr: (clock) => {
    const sim = new DenvrSim({ clock, listLagMs: 10_000 })
    return {
      provider: 'denvr',
      credentials: sim.credentials,
      server: sim.server,
      orders: [{ gpuCount: 8, gpuType: 'h100', networkType: 'ethernet', region: 'ca-west-1' }],
      writes: ['createServer', 'destroyServer'],
      leftovers: () => sim.leftovers(),
      launches: () => sim.launches(),
      bills: () => sim.bills(),
    }
  },
  lambda: (clock) => {
    const sim = new LambdaSim({ clock, listLagMs: 10_000 })
    const order = { gpuType: 'h100', networkType: 'ethernet', region: 'us-east-1' }
    return {
      provider: 'lambda',
      credentials: { apiKey: sim.apiKey },
      server: sim.server,
      orders: [
        { ...order, gpuCount: 1 },
        { ...order, gpuCount: 8, customPorts: [8080] },
      ],
      writes: ['launchInstance', 'terminateInstance', 'addSSHKey', 'deleteSSHKey', 'createFirewallRuleset'],
      leftovers: () => sim.leftovers(),
      launches: () => sim.launches(),
      bills: () => sim.bills(),
    }
  },
  latitude: (clock) => {
    const sim = new LatitudeSim({ clock })
    sim.listLagMs = 10_000
    return {
      provider: 'latitude',
      credentials: sim.credentials,
      server: sim.server,
      orders: [{ offering: 'bare-metal', gpuCount: 8, networkType: 'ethernet', region: 'us-central-1' }],
      writes: ['createServer', 'deleteServer', 'createSshKey', 'deleteSshKey', 'createUserData', 'deleteUserData'],
      leftovers: () => sim.leftovers(),
      launches: () => sim.launches(),
      bills: () => sim.bills(),
    }
  },
  verda: (clock) => {
    const sim = new VerdaSim({ clock, listLagMs: 10_000 })
    const order = { gpuType: 'h100', networkType: 'ethernet', region: 'eu-north-2' }
    return {
      provider: 'verda',
      credentials: sim.credentials,
      server: sim.server,
      orders: [
        { ...order, gpuCount: 1 },
        { ...order, gpuCount: 8 },
      ],
      writes: ['createInstance', 'actOnInstances', 'actOnVolume', 'addKey', 'deleteKey', 'addScript', 'deleteScript'],
      leftovers: () => sim.leftovers(),
      launches: () => sim.launches(),
      bills: () => sim.bills(),
    }
  },
  'voltage-park': (clock) => {
    const sim = new VoltageParkSim({ clock })
    sim.listLagMs = 10_000
    const region = 'us-central-1'
    return {
      provider: 'voltage-park',
      credentials: { apiToken: sim.apiToken },
      server: sim.server,
      orders: [
        { gpuCount: 2, gpuType: 'h100', networkType: 'ethernet', region, customPorts: [8080] },
        { offering: 'bare-metal', gpuCount: 8, networkType: 'infiniband', region },
      ],
      writes: ['deployMetal', 'terminateMetal', 'deployVm', 'terminateVm', 'forwardPort'],
      leftovers: () => sim.leftovers(),
      launches: () => sim.launches(),
      bills: () => sim.bills(),
    }
  },
}

describe.each(Object.entries(clouds))('%s', (_, makeCloud) => {
  test(`survives ${KILLS} kills`, { timeout: TIMEOUT_MS }, async () => {
    const report = await crashRun(makeCloud, KILLS)
    expect(report.leftovers).toEqual([])
    expect(report.launchedTwice).toEqual([])
    expect(report.unrecorded).toEqual([])
    expect(report.violations).toEqual([])
    expect(report.ledgerFindings).toEqual([])
    expect(report.statuses).toEqual({ Terminated: report.orders })
    expect(report.orders).toBeGreaterThan(KILLS / 4)
    expect(Number.parseFloat(report.costOfGoodsUsd)).toBeGreaterThan(0)
  })
})
