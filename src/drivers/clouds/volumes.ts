/**
 * The volumes of all accounts at one vendor. A volume belongs to one account and attaches only to machines of that
 * account, so it is created in the account of the machine that will use it.
 *
 * Volumes of an account that does not answer are listed from the database, never as gone.
 */
import type { DriverVolume, Near, VolumeDriver, VolumeOutcome, VolumeSpec } from '../driver.ts'
import type { Accounts, OpenedAccount } from './accounts.ts'
import type { CloudVendor, CloudVolume, CloudVolumes, CloudVolumeTraits } from './cloud.ts'
import { sellableOf } from './offer.ts'
import type { CloudWorld } from './world.ts'

export function cloudVolumes(
  vendor: CloudVendor,
  { serves, attaches, grows }: CloudVolumeTraits,
  accounts: Accounts,
  world: CloudWorld,
): VolumeDriver {
  const ownerOf = async (externalId: string): Promise<{ volumes: CloudVolumes; id: string }> => {
    const { cloud, id } = await accounts.ownerOf(externalId)
    return { volumes: volumesOf(vendor, cloud), id }
  }
  /** Returns the volume and the id of the machine, which must belong to the same account. */
  const pairOf = async (externalId: string, machineId: string) => {
    const [account, machineAccount] = [accountOf(externalId), accountOf(machineId)]
    if (account !== machineAccount)
      throw new Error(`The volume is at the account ${account}, the machine at ${machineAccount}.`)
    return { ...(await ownerOf(externalId)), machine: machineId.slice(account.length + 1) }
  }
  const grow: VolumeDriver['grow'] = async (externalId, sizeGb, signal) => {
    const { volumes, id } = await ownerOf(externalId)
    if (volumes.grow === undefined) throw new Error(`Volumes of ${vendor.title} cannot grow.`)
    return volumes.grow(id, sizeGb, signal)
  }
  return {
    serves,
    attaches,
    isLocal: false,
    regions: 'own',
    create: (tag, spec, signal) => createVolume(vendor, accounts, tag, spec, signal),
    ...(grows ? { grow } : {}),
    async destroy(externalId, signal) {
      signal.throwIfAborted()
      // An id without an account was never ours, so there is nothing to destroy.
      if (!externalId.includes('/')) return
      const { volumes, id } = await ownerOf(externalId)
      await volumes.destroy(id, signal)
    },
    async list(tagPrefix, signal) {
      signal.throwIfAborted()
      const answers = await accounts.ask(async ({ account, cloud }) => {
        const listed = await volumesOf(vendor, cloud).list(tagPrefix, signal)
        return listed.map((volume) => show(vendor, account.name, volume))
      })
      const answered = new Set(answers.map(({ account }) => account.name))
      const silent = (await world.listVolumes(tagPrefix)).filter(
        ({ externalId }) => !answered.has(accountOf(externalId)),
      )
      return [...answers.flatMap(({ value }) => value), ...silent]
    },
    async attach(externalId, machineId, signal, mount) {
      const { volumes, id, machine } = await pairOf(externalId, machineId)
      await volumes.attach(id, machine, signal, mount)
    },
    async detach(externalId, machineId, signal) {
      const { volumes, id, machine } = await pairOf(externalId, machineId)
      await volumes.detach(id, machine, signal)
    },
  }
}

async function createVolume(
  vendor: CloudVendor,
  accounts: Accounts,
  tag: string,
  spec: VolumeSpec,
  signal: AbortSignal,
): Promise<VolumeOutcome> {
  signal.throwIfAborted()
  // An earlier attempt may have chosen another account, so all must answer.
  const owners = await Promise.all(
    (await accounts.all()).map(async (opened) => {
      const existing = await volumesOf(vendor, opened.cloud).list(tag, signal)
      return existing.some((volume) => volume.tag === tag) ? opened : undefined
    }),
  )
  const chosen = owners.find((opened) => opened !== undefined) ?? (await chooseAccount(vendor, accounts, spec, signal))
  if (chosen === undefined)
    return {
      kind: 'refused',
      reason: 'no_storage_capacity',
      message: `No account at ${vendor.title} takes new volumes in ${spec.region}.`,
    }
  const { near: _, ...order } = spec
  const outcome = await volumesOf(vendor, chosen.cloud).create(tag, order, signal)
  return outcome.kind === 'refused'
    ? outcome
    : { ...outcome, externalId: `${chosen.account.name}/${outcome.externalId}` }
}

function volumesOf(vendor: CloudVendor, cloud: OpenedAccount['cloud']): CloudVolumes {
  if (cloud.volumes === undefined) throw new Error(`${vendor.title} has no volumes.`)
  return cloud.volumes
}

function show({ billing }: CloudVendor, account: string, { costPerHour, ...volume }: CloudVolume): DriverVolume {
  return {
    ...volume,
    cost: { account, perHour: costPerHour, ...billing },
    externalId: `${account}/${volume.externalId}`,
    attachedTo: volume.attachedTo.map((machine) => `${account}/${machine}`),
  }
}

/**
 * Chooses the account of the machine or volume that the new volume must be near, else one that sells such machines in
 * the region, else any.
 */
async function chooseAccount(
  vendor: CloudVendor,
  accounts: Accounts,
  { region, near }: { readonly region: string; readonly near?: Near },
  signal: AbortSignal,
): Promise<OpenedAccount | undefined> {
  const candidates = (await accounts.all()).filter(({ account }) => account.closed === null)
  const id =
    near === undefined ? undefined : 'machine' in near ? near.machine : 'volume' in near ? near.volume : undefined
  if (id !== undefined) return candidates.find(({ account }) => account.name === accountOf(id))
  if (candidates.length <= 1) return candidates[0]
  const selling = await Promise.all(
    candidates.map(async ({ account, cloud }) => {
      const offers = await cloud.offers(signal).catch(() => [])
      return offers.some((offer) => {
        const sellable = sellableOf(vendor, account, offer)
        return (
          sellable.kind === 'sold' && sellable.item.region === region && vendor.volumes?.serves.includes(offer.kind)
        )
      })
    }),
  )
  return candidates.find((_, n) => selling[n]) ?? candidates[0]
}

function accountOf(externalId: string): string {
  return externalId.split('/')[0] ?? ''
}
