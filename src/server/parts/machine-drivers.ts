/** The machine engines: the drivers, and the loops that this server runs for them. */
import type { Logger } from 'pino'
import type { App, Providers } from '../../app/app.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import type { Driver } from '../../drivers/driver.ts'
import { hostDriver } from '../../drivers/host/driver.ts'
import type { HostWorld } from '../../drivers/host/world.ts'
import { metalDriver } from '../../drivers/metal/driver.ts'
import { keepMetal } from '../../drivers/metal/keep.ts'
import { folderEngine, type FolderEngine } from '../../drivers/metal/volumes.ts'
import { mockDriver } from '../../drivers/mock/driver.ts'
import { mockOffers, scaledFleet } from '../../drivers/mock/fleet.ts'
import { openGanesha } from '../../runtimes/storage/ganesha.ts'
import type { Reconciler } from '../../reconcile/loop.ts'
import { postgresHostWorld } from '../../store/host/host-world.ts'
import { postgresMockWorld } from '../../store/machine/mock-world.ts'
import { openClouds } from './cloud-drivers.ts'
import { metalWorld } from '../hosts/metal-world.ts'
import type { EngineName, Settings } from '../settings.ts'

export interface MachineEngines {
  readonly drivers: App['drivers']
  readonly loops: readonly Reconciler[]
  readonly providers: Providers
}

/** How often the NFS exports are checked, besides each attach, detach and termination. */
const EXPORTS_EVERY_MS = 5_000

interface Parts {
  readonly app: Pick<App, 'database' | 'clock' | 'vault' | 'installationId' | 'recorder'>
  readonly settings: Settings
  readonly log: Logger
  readonly closing: Array<() => Promise<unknown>>
}

export async function openMachineEngines(parts: Parts): Promise<MachineEngines> {
  const { app, settings } = parts
  const world: HostWorld = postgresHostWorld(app.database, settings.relay.ports)
  const drivers = new Map<ProviderId, Driver>()
  const loops: Reconciler[] = []
  for (const engine of settings.engines) {
    const opened = await openEngine(engine, world, parts)
    drivers.set(opened.driver.id, opened.driver)
    loops.push(...opened.loops)
  }
  const warn = (error: unknown, what: string): void => parts.log.warn({ err: error }, what)
  const clouds = openClouds({ app, allowPrivate: settings.allowPrivateAddresses, warn }, drivers)
  parts.closing.push(() => clouds.close())
  await clouds.loop.run(new AbortController().signal)
  return { drivers, loops: [...loops, clouds.loop], providers: clouds.providers }
}

async function openEngine(
  engine: EngineName,
  world: HostWorld,
  parts: Parts,
): Promise<{ driver: Driver; loops: Reconciler[] }> {
  const { clock, database } = parts.app
  const { settings } = parts
  switch (engine) {
    case 'mock': {
      const { bootMs, destroyMs, scale, offers } = settings.mock
      const common = { world: postgresMockWorld(database.db), clock, bootMs, destroyMs, fleet: scaledFleet(scale) }
      return {
        driver: mockDriver(offers ? { ...common, offers: mockOffers } : common),
        loops: [],
      }
    }
    case 'host':
      return {
        driver: hostDriver({
          world,
          clock,
          relayHost: settings.relay.publicHost,
          overcommit: settings.storageOvercommit,
          sellSimulated: settings.sellSimulated,
        }),
        loops: [],
      }
    case 'private-cloud':
      return openMetal(world, parts)
    case 'kubernetes': {
      // Most servers have no cluster, and need not load what reads one.
      const { openKubernetes } = await import('./kubernetes-driver.ts')
      return { driver: await openKubernetes(parts), loops: [] }
    }
  }
}

async function openMetal(world: HostWorld, parts: Parts): Promise<{ driver: Driver; loops: Reconciler[] }> {
  const { app, settings, log, closing } = parts
  const folders = settings.storage === undefined ? undefined : await openFolders(world, settings.storage, parts)
  const keeper = keepMetal({
    world: metalWorld(app),
    clusterSecret: app.vault.derive('cluster keys'),
    log,
    measured: (hostId, metrics) => app.recorder?.take(hostId, null, metrics),
  })
  closing.push(() => keeper.close())
  const exportLoops: Reconciler[] =
    folders === undefined
      ? []
      : [
          {
            name: 'nfs-exports',
            everyMs: EXPORTS_EVERY_MS,
            run: async (signal) => {
              await folders.syncClients(signal)
              return false
            },
          },
        ]
  const driver = metalDriver({ world, clock: app.clock, ...(folders === undefined ? {} : { volumes: folders }) })
  return { driver, loops: [keeper, ...exportLoops] }
}

async function openFolders(
  world: HostWorld,
  storage: NonNullable<Settings['storage']>,
  { settings, log, closing }: Parts,
): Promise<FolderEngine> {
  const files = await openGanesha({
    folder: storage.dir,
    vip: storage.vip,
    overcommit: settings.storageOvercommit,
    log,
  })
  closing.push(() => files.close())
  return folderEngine(world, files)
}
