/** Opens the drivers of whatever provides machines, with the loops that this server runs for them. */
import type { App } from '../../app/app.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import type { Driver } from '../../drivers/driver.ts'
import { hostDriver } from '../../drivers/host/driver.ts'
import type { HostWorld } from '../../drivers/host/world.ts'
import { metalDriver } from '../../drivers/metal/driver.ts'
import { keepMetal } from '../../drivers/metal/keep.ts'
import { folderDriver, type FolderDriver } from '../../drivers/metal/volumes.ts'
import { mockDriver } from '../../drivers/mock/driver.ts'
import { mockOffers, scaledFleet } from '../../drivers/mock/fleet.ts'
import { openGanesha } from '../../runtimes/storage/ganesha.ts'
import type { Reconciler } from '../../reconcile/loop.ts'
import { postgresHostWorld } from '../../store/host/host-world.ts'
import { postgresMockWorld } from '../../store/machine/mock-world.ts'
import { openClouds } from './cloud-drivers.ts'
import { metalWorld } from '../hosts/metal-world.ts'
import type { DriverName, Settings } from '../settings.ts'
import { openParts, type Checks, type Context, type Part, type Parts } from './part.ts'
import { answersInTime } from './readiness.ts'
import type { StoreApp } from './store.ts'

export interface MachineDrivers extends Part {
  readonly app: Pick<App, 'drivers' | 'providers'>
}

/** How often the NFS exports are checked, besides each attach, detach and termination. */
const EXPORTS_EVERY_MS = 5_000

export function openMachineDrivers(context: Context, app: StoreApp): Promise<MachineDrivers> {
  const { settings, log } = context
  return openParts(async (parts) => {
    const world: HostWorld = postgresHostWorld(app.database, settings.relay.ports)
    const drivers = new Map<ProviderId, Driver>()
    for (const driverName of settings.drivers) {
      const { driver } = await parts.add(openDriver(driverName, world, context, app))
      drivers.set(driver.id, driver)
    }
    const checks = checksOf(drivers.values())
    const warn = (error: unknown, what: string): void => log.warn({ err: error }, what)
    const clouds = await parts.add(openClouds({ app, allowPrivate: settings.allowPrivateAddresses, warn }, drivers))
    await clouds.loop.run(new AbortController().signal)
    return { app: { drivers, providers: clouds.providers }, loops: [...parts.loops, clouds.loop], checks }
  })
}

/** Another cloud that is down takes only its own machines off sale. */
function checksOf(drivers: Iterable<Driver>): Checks {
  const ownDrivers = [...drivers].filter(({ providers }) => providers === undefined)
  return Object.fromEntries(
    ownDrivers.map((driver) => [driver.id, () => answersInTime((signal) => driver.check(signal))]),
  )
}

interface DriverPart extends Part {
  readonly driver: Driver
}

async function openDriver(
  driverName: DriverName,
  world: HostWorld,
  context: Context,
  app: StoreApp,
): Promise<DriverPart> {
  const { settings, clock } = context
  switch (driverName) {
    case 'mock': {
      const { bootMs, destroyMs, scale, offers } = settings.mock
      const fleet = scaledFleet(scale)
      const common = { world: postgresMockWorld(app.database.db), clock, bootMs, destroyMs, fleet }
      return { driver: mockDriver(offers ? { ...common, offers: mockOffers } : common), close: () => {} }
    }
    case 'host': {
      const { storageOvercommit: overcommit, sellSimulated } = settings
      const { publicHost: relayHost } = settings.relay
      return { driver: hostDriver({ world, clock, relayHost, overcommit, sellSimulated }), close: () => {} }
    }
    case 'private-cloud':
      return openParts((parts) => openMetal(parts, world, context, app))
    case 'kubernetes': {
      // Most servers have no cluster, and need not load what reads one.
      const { openKubernetes } = await import('./kubernetes-driver.ts')
      return openKubernetes(context, app)
    }
  }
}

async function openMetal(
  parts: Parts,
  world: HostWorld,
  context: Context,
  app: StoreApp,
): Promise<Omit<DriverPart, 'close'>> {
  const { settings, log, clock } = context
  const folders =
    settings.storage === undefined ? undefined : await openFolders(parts, world, settings.storage, context)
  const keeper = keepMetal({
    world: metalWorld(app),
    clusterSecret: app.vault.derive('cluster keys'),
    log,
    measured: (hostId, metrics) => app.recorder.take(hostId, null, metrics),
  })
  await parts.add(keeper)
  const driver = metalDriver({ world, clock, ...(folders === undefined ? {} : { volumes: folders }) })
  return { driver, loops: folders === undefined ? [keeper] : [keeper, exportLoop(folders)] }
}

function exportLoop(folders: FolderDriver): Reconciler {
  return {
    name: 'nfs-exports',
    everyMs: EXPORTS_EVERY_MS,
    run: async (signal) => {
      await folders.syncClients(signal)
      return false
    },
  }
}

async function openFolders(
  parts: Parts,
  world: HostWorld,
  { dir, vip }: NonNullable<Settings['storage']>,
  { settings, log }: Context,
): Promise<FolderDriver> {
  const files = openGanesha({ folder: dir, vip, overcommit: settings.storageOvercommit, log })
  return folderDriver(world, await parts.add(files))
}
