/** Reads the options of an order: which of them its kind of machine has, and whether what they refer to exists. */
import { parseInstant, type Instant } from '../../base/instant.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import type { IdleRule, OrderOptions } from '../../contract/workload.ts'
import { diskSize } from '../../domain/machine.ts'
import type { EngineSpec, RentalKind } from '../../domain/rental.ts'
import { isOfRegistry } from '../../domain/registry.ts'
import {
  portInputOf,
  portsOf,
  secretNamesOf,
  secretsIn,
  secretTexts,
  workloadOf,
  type WorkloadSpec,
} from '../../domain/workload.ts'
import { canStop } from '../../drivers/driver.ts'
import type { Tx } from '../../store/platform/database.ts'
import type { OrderedMachine } from '../../store/machine/machine.ts'
import { setOrderOptions, type Rental } from '../../store/rental/rental.ts'
import { findRegistryCredential, findSecrets } from '../../store/account/secret.ts'
import type { Actor, App } from '../app.ts'

/** Options that make no sense for a kind of machine. */
const unsupported: Readonly<Record<RentalKind, ReadonlyArray<keyof OrderOptions>>> = {
  container: ['userData', 'storageVolume', 'cudaVersion', 'customPorts'],
  'virtual-machine': [
    'command',
    'args',
    'shmGb',
    'registryCredentialId',
    'restart',
    'weights',
    'storageVolume',
    'cudaVersion',
  ],
  'bare-metal': [
    'command',
    'args',
    'shmGb',
    'diskGb',
    'registryCredentialId',
    'restart',
    'stopAt',
    'ports',
    'customPorts',
    'volumes',
    'weights',
  ],
}

export interface ReadOptions {
  readonly workload: WorkloadSpec
  readonly stopAt: Instant | null
  readonly idle: IdleRule | null
  readonly secretNames: readonly string[]
  readonly metadata: Readonly<Record<string, unknown>> | null
}

export async function readOrderOptions(
  tx: Tx,
  actor: Actor,
  kind: RentalKind,
  options: OrderOptions & { readonly image?: { readonly name: string } | null | undefined },
  templateId: string | null,
): Promise<Result<ReadOptions>> {
  const read = readOwnOptions(kind, options, templateId, tx.clock.now())
  if (!read.ok) return read
  const { workload, secretNames } = read.value
  const unknown = await refuseSecrets(tx, actor, workload, secretNames, options.secrets ?? [])
  if (unknown !== undefined) return unknown
  const login = await refuseLogin(tx, actor, workload, options.image?.name)
  if (login !== undefined) return login
  return read
}

/** Checks that need no database. The secrets and the registry credential may not exist. */
export function readOwnOptions(
  kind: RentalKind,
  options: OrderOptions,
  templateId: string | null,
  now: Instant,
): Result<ReadOptions> {
  for (const option of unsupported[kind]) {
    if (options[option] !== undefined) return failField([option], 'option_not_supported', { option, kind })
  }
  if (kind === 'bare-metal' && options.idle?.action === 'stop') {
    return failField(['idle', 'action'], 'option_not_supported', { option: 'idle.action stop', kind })
  }
  const workload = workloadOf(options, templateId)
  const udp = workload.ports.find(({ protocol }) => protocol === 'udp')
  if (udp !== undefined) return failField(['ports'], 'udp_not_supported', { port: udp.port })
  const stopAt = options.stopAt === undefined ? null : parseInstant(options.stopAt)
  if (stopAt === undefined) return failField(['stopAt'], 'bad_time')
  if (stopAt !== null && stopAt <= now) return failField(['stopAt'], 'time_in_past')
  const secretNames = secretNamesOf(workload)
  return ok({ workload, stopAt, idle: options.idle ?? null, secretNames, metadata: options.metadata ?? null })
}

async function refuseSecrets(
  tx: Tx,
  actor: Actor,
  workload: WorkloadSpec,
  references: readonly string[],
  named: readonly string[],
): Promise<Failure | undefined> {
  const secrets = await findSecrets(tx.db, actor.accountId, [...new Set([...references, ...named])])
  const known = new Set(secrets.map(({ name }) => name))
  for (const { field, text } of secretTexts(workload)) {
    const name = secretsIn(text).find((one) => !known.has(one))
    if (name !== undefined) return failField(field, 'secret_not_found', { name, isReference: true })
  }
  const index = named.findIndex((name) => !known.has(name))
  const name = named[index]
  return name === undefined ? undefined : failField(['secrets', index], 'secret_not_found', { name, isReference: true })
}

/** A login that does not fit the image would be of no use, and must not reach another registry. */
async function refuseLogin(
  tx: Tx,
  actor: Actor,
  { registryCredentialId: id }: WorkloadSpec,
  image: string | undefined,
): Promise<Failure | undefined> {
  if (id === null) return undefined
  const login = await findRegistryCredential(tx.db, actor.accountId, id)
  if (login === undefined) {
    return fail('registry_credential_not_found', { field: ['registryCredentialId'], failureKind: 'invalid' })
  }
  if (image !== undefined && isOfRegistry(image, login.server)) return undefined
  return failField(['registryCredentialId'], 'registry_credential_mismatch', { server: login.server })
}

/** A rule that could never act is refused: the customer relies on it. */
export function refuseIdle(
  { drivers }: Pick<App, 'drivers'>,
  { driver, simulation }: Pick<OrderedMachine, 'driver' | 'simulation'>,
  idle: IdleRule | null | undefined,
): Failure | undefined {
  if (!idle) return undefined
  if (drivers.get(driver)?.traits.blindToUse === true) return failField(['idle'], 'idle_not_measured')
  // Simulated GPUs of a real machine have no load. A simulated machine simulates that as well.
  return simulation === 'gpus' ? failField(['idle'], 'idle_gpus_not_measured') : undefined
}

/** The spec of an order for a machine with its options: the size of the disk instead of the share of the GPUs, and ports. */
export function withOptions<Spec extends Pick<EngineSpec, 'kind' | 'resources' | 'ports'>>(
  app: Pick<App, 'drivers'>,
  machine: Pick<OrderedMachine, 'driver' | 'offer_id'>,
  spec: Spec,
  { workload, isManaged }: Pick<ReadOptions, 'workload'> & { readonly isManaged?: boolean },
): Result<Spec & { workload: WorkloadSpec }> {
  const { resources } = spec
  const { diskGb } = workload
  if (diskGb !== null && diskGb > resources.storageGb) {
    return failField(['diskGb'], 'disk_too_large', { diskGb, maxGb: resources.storageGb })
  }
  // The engine publishes TCP ports by number; those of the interface become options too.
  const ports = portsOf([...spec.ports, ...workload.ports.map(portInputOf)])
  return ok({
    ...spec,
    ports: ports.map(({ port }) => port),
    workload: { ...workload, ports },
    // Replicas are never stopped, and may download their model to the disk.
    resources: isManaged === true && diskGb === null ? resources : withDisk(app, machine, spec.kind, resources, diskGb),
  })
}

/** The share of a machine with the disk that a rental gets there. */
export function withDisk<Share extends EngineSpec['resources']>(
  { drivers }: Pick<App, 'drivers'>,
  { driver, offer_id }: Pick<OrderedMachine, 'driver' | 'offer_id'>,
  kind: RentalKind,
  share: Share,
  diskGb: number | null,
): Share {
  const isKept = offer_id === null && canStop(drivers.get(driver), kind)
  return { ...share, storageGb: diskSize(share.storageGb, diskGb, isKept) }
}

/** In the transaction of the order. */
export async function keepOptions(tx: Tx, rental: Rental, read: ReadOptions): Promise<Rental> {
  const { stopAt, idle, secretNames, metadata } = read
  if (stopAt === null && idle === null && secretNames.length === 0 && metadata === null) return rental
  return setOrderOptions(tx, rental.id, { stopAt, idle, secretNames, metadata: metadata ?? rental.user_metadata })
}
