/** Secrets and registry logins. Only a host that runs a rental gets the values. */
import { limits } from '../../base/limits.ts'
import type { Desired, Program } from '../../contract/agent.ts'
import { fail, failField, ok, type Result } from '../../contract/result.ts'
import { idOfTag } from '../../domain/rental.ts'
import { isOfRegistry } from '../../domain/registry.ts'
import { secretsIn, withSecrets } from '../../domain/workload.ts'
import { weightsOwner } from '../../domain/weights-set.ts'
import { lockAccount } from '../../store/account/account.ts'
import type { Tx } from '../../store/platform/database.ts'
import * as store from '../../store/account/secret.ts'
import type { Actor, App } from '../app.ts'

export async function setSecret(
  app: App,
  tx: Tx,
  actor: Actor,
  name: string,
  value: string,
): Promise<Result<store.Secret>> {
  if ((await lockAccount(tx, actor.accountId)) === undefined) return fail('account_not_found')
  const existingSecrets = await store.listSecrets(tx.db, actor.accountId)
  if (existingSecrets.length >= limits.secretsPerAccount && !existingSecrets.some((one) => one.name === name)) {
    return fail('quota_exceeded', { quota: `${limits.secretsPerAccount} secrets` })
  }
  return ok(await store.putSecret(tx, actor.accountId, name, app.vault.seal(value)))
}

export async function deleteSecret(tx: Tx, actor: Actor, name: string): Promise<Result<string>> {
  if (!(await store.deleteSecret(tx, actor.accountId, name))) return fail('secret_not_found', { name })
  // Read after the delete, which waits for orders that refer to the secret.
  const rentalIds = (await store.listSecretUses(tx.db, actor.accountId)).get(name)
  return rentalIds === undefined ? ok(name) : fail('secret_in_use', { rentalIds })
}

export async function addRegistryCredential(
  app: App,
  tx: Tx,
  actor: Actor,
  login: { readonly name: string; readonly server: string; readonly username: string; readonly password: string },
): Promise<Result<store.RegistryCredential>> {
  if ((await lockAccount(tx, actor.accountId)) === undefined) return fail('account_not_found')
  const existingLogins = await store.listRegistryCredentials(tx.db, actor.accountId)
  const { password, ...rest } = login
  const added = await store.insertRegistryCredential(tx, actor.accountId, { ...rest, sealed: app.vault.seal(password) })
  if (added === undefined) return failField(['name'], 'name_in_use', { name: login.name })
  if (existingLogins.length >= limits.registryCredentialsPerAccount) {
    return fail('quota_exceeded', { quota: `${limits.registryCredentialsPerAccount} registry logins` })
  }
  return ok(added)
}

export async function deleteRegistryCredential(tx: Tx, actor: Actor, id: string): Promise<Result<string>> {
  if (!(await store.deleteRegistryCredential(tx, actor.accountId, id))) return fail('registry_credential_not_found')
  const rentalIds = await store.listRegistryUses(tx.db, actor.accountId, id)
  return rentalIds.length === 0 ? ok(id) : fail('registry_credential_in_use', { rentalIds })
}

/** The desired state of a host, with values in place of references, and the owners of weights and caches. Never stored or logged. */
export async function resolveSecrets(
  app: Pick<App, 'database' | 'vault' | 'installationId'>,
  desired: Desired,
): Promise<Desired> {
  const ids = new Map<string, number>()
  for (const { tag, spec, want } of desired.workloads) {
    const id = spec?.program === undefined || want === 'gone' ? undefined : idOfTag(app.installationId, 'rental', tag)
    if (id !== undefined) ids.set(tag, id)
  }
  if (ids.size === 0) return desired
  const credentials = await store.readSecretsOf(app.database.db, [...ids.values()])
  const workloads = desired.workloads.map((workload) => {
    const { spec, tag } = workload
    const id = ids.get(tag)
    if (spec?.program === undefined || id === undefined) return workload
    return { ...workload, spec: { ...spec, program: fillIn(app.vault, spec.program, id, credentials) } }
  })
  return { ...desired, workloads }
}

/** The program of one rental, likewise. */
export async function resolveProgram(
  app: Pick<App, 'database' | 'vault'>,
  rentalId: number,
  program: Program,
): Promise<Program> {
  return fillIn(app.vault, program, rentalId, await store.readSecretsOf(app.database.db, [rentalId]))
}

function fillIn(
  vault: App['vault'],
  program: Program,
  rentalId: number,
  credentials: Awaited<ReturnType<typeof store.readSecretsOf>>,
): Program {
  const rentalSecrets = credentials.secrets.filter((one) => one.rental_id === rentalId)
  const values = new Map(rentalSecrets.map((one) => [one.name, vault.open(one.sealed)]))
  const resolve = (text: string): string => (secretsIn(text).length === 0 ? text : withSecrets(text, values))
  const login = credentials.logins.find(
    (one) => one.rental_id === rentalId && isOfRegistry(one.image ?? '', one.server),
  )
  const owner = credentials.owners.find((one) => one.rental_id === rentalId)?.account_id
  const { weights, compileCache } = program
  const by = owner === undefined ? undefined : { owner: weightsOwner(owner) }
  return {
    ...program,
    ...(weights === undefined || by === undefined ? {} : { weights: { ...weights, ...by } }),
    ...(compileCache === undefined || by === undefined ? {} : { compileCache: { ...compileCache, ...by } }),
    env: Object.fromEntries(Object.entries(program.env).map(([name, value]) => [name, resolve(value)])),
    files: program.files.map((file) => ({ ...file, content: resolve(file.content) })),
    onStart: program.onStart === null ? null : resolve(program.onStart),
    userData: program.userData === null ? null : resolve(program.userData),
    secrets: [...values.values()],
    registry:
      login === undefined
        ? null
        : { server: login.server, username: login.username, password: vault.open(login.sealed) },
  }
}
