/** Storage options: regions, prices, the provider of each region, and its free space. */
import { instantOf, type Instant } from '../../base/instant.ts'
import type { NanoUsd } from '../../base/money.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import { findRental } from '../../store/rental/rental.ts'
import type { Driver, Near, VolumeDriver } from '../../drivers/driver.ts'
import { listDriversIn } from '../../store/machine/machine.ts'
import { listStoragePrices } from '../../store/machine/price.ts'
import type { App } from '../app.ts'

interface StorageOption {
  readonly region: string
  readonly enabled: boolean
  readonly perGbHour: NanoUsd
  /** null: the provider has no limit or did not answer, or there is no provider for volumes. */
  readonly availableGb: number | null
  /** undefined: there is none, or the region is disabled. */
  readonly engine: VolumeDriver | undefined
}

/** Lists regions in the price book: a region without a price is not offered. */
export async function listStorageOptions(app: App): Promise<StorageOption[]> {
  const { db } = app.database
  const prices = await listStoragePrices(db)
  const regions = prices.map(({ region }) => region)
  const there = regions.length === 0 ? [] : await listDriversIn(db, regions)
  const makers = new Map<string, Driver>()
  for (const { region, enabled } of prices) {
    const maker = enabled ? chooseVolumeDriver(app, there, { region }) : undefined
    if (maker !== undefined) makers.set(region, maker)
  }
  const roomGb = await askForRoom(app, makers)
  return prices.map(({ region, nano_per_gb_hour }) => ({
    region,
    enabled: makers.has(region),
    perGbHour: nano_per_gb_hour,
    availableGb: roomGb.get(region) ?? null,
    engine: makers.get(region)?.volumes,
  }))
}

/** Calls each provider once, for all its regions. */
async function askForRoom(app: App, makers: ReadonlyMap<string, Driver>): Promise<ReadonlyMap<string, number>> {
  const answers = [...new Set(makers.values())].map(async (driver) => {
    const regions = [...makers].filter(([, maker]) => maker === driver).map(([region]) => region)
    try {
      return (await driver.volumes?.roomGb?.(regions, AbortSignal.timeout(driver.callTimeoutMs))) ?? []
    } catch (error) {
      // The list is public and prices do not depend on it: a failing provider only loses its own number.
      app.warn?.(error, `the engine ${driver.id} did not report its free space for volumes`)
      return []
    }
  })
  return new Map((await Promise.all(answers)).flatMap((answer) => [...answer]))
}

/** Free space of the providers of a region. Read before the transaction of an order, because it may take a while. */
export interface VolumeRoom {
  readonly askedAt: Instant
  /** Providers without a limit, or without an answer, are left out: they decide when the volume is created. */
  readonly roomGb: ReadonlyMap<ProviderId, number>
  /** The provider that answered for the one machine that the volume is on or for. */
  readonly atMachineOf?: ProviderId | undefined
}

/** The room for an order without a new volume, which needs none. */
export const noRoomAsked: VolumeRoom = { askedAt: instantOf(0), roomGb: new Map() }

/** `of`: the provider that it is for, and where there. */
export async function readVolumeRoom(
  app: App,
  region: string,
  of?: { readonly driver: ProviderId; readonly near: Near },
): Promise<VolumeRoom> {
  const askedAt = app.clock.now()
  const answers = [...app.drivers.values()].map(async ({ id, volumes, callTimeoutMs }) => {
    try {
      const signal = AbortSignal.timeout(callTimeoutMs)
      const near = of?.driver === id ? of.near : undefined
      const roomGb = (await volumes?.roomGb?.([region], signal, near))?.get(region)
      return roomGb === undefined ? [] : [[id, roomGb] as const]
    } catch (error) {
      app.warn?.(error, `the engine ${id} did not report its free space for volumes`)
      return []
    }
  })
  return { askedAt, roomGb: new Map((await Promise.all(answers)).flat()), atMachineOf: of?.driver }
}

/** Room for a volume of this rental. */
export async function readRoomOfRental(app: App, region: string, rentalId: number | undefined): Promise<VolumeRoom> {
  const rental = rentalId === undefined ? undefined : await findRental(app.database.db, rentalId)
  if (rental === undefined || rental.external_id === null) return readVolumeRoom(app, region)
  return readVolumeRoom(app, region, { driver: rental.driver, near: { machine: rental.external_id } })
}

/** The provider of its rental; else one with machines in the region; else one for any region. */
export function chooseVolumeDriver(
  app: App,
  there: Awaited<ReturnType<typeof listDriversIn>>,
  order: { readonly region: string; readonly driver?: ProviderId | undefined },
): Driver | undefined {
  const holding = [...app.drivers.values()].filter(({ volumes }) => volumes !== undefined)
  if (order.driver !== undefined) return holding.find(({ id }) => id === order.driver)
  const inRegion = holding.filter(
    ({ id, volumes }) =>
      volumes?.regions === 'own' &&
      there.some(
        ({ region, driver, offering }) =>
          region === order.region &&
          driver === id &&
          // Machines with containers keep their volumes to themselves: such a volume is ordered for one of them.
          offering !== 'marketplace' &&
          volumes.serves.includes(offering),
      ),
  )
  return inRegion[0] ?? holding.find(({ volumes }) => volumes?.regions === 'all')
}
