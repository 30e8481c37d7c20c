/** Reads the options of an order: which of them its kind of machine has, and whether what they refer to exists. */
import type { Instant } from '../../base/instant.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import type { IdleRule, OrderOptions } from '../../contract/workload.ts'
import type { RentalKind } from '../../domain/rental.ts'
import { isOfRegistry } from '../../domain/registry.ts'
import { secretNamesOf, secretsIn, secretTexts, workloadOf, type WorkloadSpec } from '../../domain/workload.ts'
import type { Tx } from '../../store/platform/database.ts'
import { findRegistryCredential, findSecrets } from '../../store/account/secret.ts'
import type { Actor } from '../app.ts'

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
    'compileCache',
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
    'compileCache',
  ],
}

export interface ReadOptions {
  readonly workload: WorkloadSpec
  readonly stopAt: Instant | null
  readonly idle: IdleRule | null
  readonly secretNames: readonly string[]
  readonly metadata: Readonly<Record<string, unknown>> | null
}

/** Needs no database: the secrets and the registry credential may not exist. */
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
  const stopAt = options.stopAt ?? null
  if (stopAt !== null && stopAt <= now) return failField(['stopAt'], 'time_in_past')
  const secretNames = secretNamesOf(workload)
  return ok({ workload, stopAt, idle: options.idle ?? null, secretNames, metadata: options.metadata ?? null })
}

/** Refuses references to secrets and registry credentials that the account does not have. */
export async function refuseReferences(
  tx: Tx,
  payer: Pick<Actor, 'accountId'>,
  { workload, secretNames }: ReadOptions,
  { secrets = [], image }: OrderOptions & { readonly image?: { readonly name: string } | null | undefined },
): Promise<Failure | undefined> {
  const unknown = await refuseSecrets(tx, payer, workload, secretNames, secrets)
  return unknown ?? (await refuseLogin(tx, payer, workload, image?.name))
}

async function refuseSecrets(
  tx: Tx,
  payer: Pick<Actor, 'accountId'>,
  workload: WorkloadSpec,
  references: readonly string[],
  named: readonly string[],
): Promise<Failure | undefined> {
  const secrets = await findSecrets(tx.db, payer.accountId, [...new Set([...references, ...named])])
  const secretNames = new Set(secrets.map(({ name }) => name))
  for (const { field, text } of secretTexts(workload)) {
    const name = secretsIn(text).find((one) => !secretNames.has(one))
    if (name !== undefined) return failField(field, 'secret_not_found', { name, isReference: true })
  }
  const index = named.findIndex((name) => !secretNames.has(name))
  const name = named[index]
  return name === undefined ? undefined : failField(['secrets', index], 'secret_not_found', { name, isReference: true })
}

/** A login that does not fit the image would be of no use, and must not reach another registry. */
async function refuseLogin(
  tx: Tx,
  payer: Pick<Actor, 'accountId'>,
  { registryCredentialId: id }: WorkloadSpec,
  image: string | undefined,
): Promise<Failure | undefined> {
  if (id === null) return undefined
  const login = await findRegistryCredential(tx.db, payer.accountId, id)
  if (login === undefined) {
    return fail('registry_credential_not_found', { field: ['registryCredentialId'], failureKind: 'invalid' })
  }
  if (image !== undefined && isOfRegistry(image, login.server)) return undefined
  return failField(['registryCredentialId'], 'registry_credential_mismatch', { server: login.server })
}
