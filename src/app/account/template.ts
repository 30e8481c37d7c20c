/** Templates, and who may see, change and use them. */
import { limits } from '../../base/limits.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import type { TemplateBody, TemplateChange } from '../../contract/template.ts'
import type { OrderOptions } from '../../contract/workload.ts'
import { completeOrder, missingParam, unnamedSecrets } from '../../domain/template.ts'
import type { Db, Tx } from '../../store/platform/database.ts'
import * as store from '../../store/account/template.ts'
import type { Actor } from '../app.ts'

/** Accepts `ID` or `ID@VERSION`. Another account's private template counts as missing. */
export async function findTemplate(db: Db, actor: Actor, reference: string): Promise<Result<store.Template>> {
  const parsed = /^([A-Za-z0-9_]{1,60})(?:@([1-9]\d{0,8}))?$/.exec(reference)
  const id = parsed?.[1]
  if (id === undefined) return fail('template_not_found', { id: reference })
  const version = parsed?.[2] === undefined ? undefined : Number.parseInt(parsed[2], 10)
  const template = await store.findTemplate(db, id, version)
  const isVisible =
    template !== undefined &&
    (template.account_id === null || template.account_id === actor.accountId || template.visibility === 'link')
  return isVisible ? ok(template) : fail('template_not_found', { id: reference })
}

export async function createTemplate(
  tx: Tx,
  actor: Actor,
  template: {
    readonly name: string
    readonly visibility: 'private' | 'link'
    readonly forEveryone: boolean
    readonly body: TemplateBody
  },
): Promise<Result<store.Template>> {
  const { forEveryone, ...row } = template
  if (forEveryone && !isOperator(actor)) return fail('missing_scope', { scope: 'operator' })
  const accountId = forEveryone ? null : actor.accountId
  if ((await store.countTemplates(tx.db, accountId)) >= limits.templatesPerAccount) {
    return fail('quota_exceeded', { quota: `${limits.templatesPerAccount} templates` })
  }
  return findTemplate(tx.db, actor, await store.insertTemplate(tx, { account_id: accountId, ...row }))
}

export async function changeTemplate(
  tx: Tx,
  actor: Actor,
  id: string,
  change: {
    readonly name?: string | undefined
    readonly visibility?: 'private' | 'link' | undefined
    readonly body: TemplateChange
  },
): Promise<Result<store.Template>> {
  const template = await findOwn(tx.db, actor, id)
  if (!template.ok) return template
  const { name, visibility, body } = template.value
  await store.updateTemplate(tx, template.value.id, {
    name: change.name ?? name,
    visibility: change.visibility ?? visibility,
    body: changedBody(body, change.body),
  })
  return findTemplate(tx.db, actor, template.value.id)
}

function changedBody(body: TemplateBody, change: TemplateChange): TemplateBody {
  const fields = Object.entries({ ...body, ...change }).filter(([, value]) => value !== null && value !== undefined)
  return Object.fromEntries(fields)
}

export async function deleteTemplate(tx: Tx, actor: Actor, id: string): Promise<Result<string>> {
  const template = await findOwn(tx.db, actor, id)
  if (!template.ok) return template
  await store.deleteTemplate(tx, template.value.id)
  return ok(template.value.id)
}

async function findOwn(db: Db, actor: Actor, id: string): Promise<Result<store.Template>> {
  const template = await findTemplate(db, actor, id)
  if (!template.ok) return template
  const { account_id: owner } = template.value
  if (owner === null && !isOperator(actor)) return fail('missing_scope', { scope: 'operator' })
  return owner === null || owner === actor.accountId ? template : fail('template_not_found', { id })
}

function isOperator({ scopes }: Actor): boolean {
  return scopes.includes('operator')
}

const BYTES_PER_MIB = 1_048_576

/** Cards are sold in GB and report MiB: a 16 GB card has 15,360 MiB. */
export function gpuTooSmall(gpuRamMib: number, minVramGb: number): Failure | undefined {
  const gpuGb = Math.round((gpuRamMib * BYTES_PER_MIB) / 1e9)
  return gpuGb >= minVramGb ? undefined : failField(['templateId'], 'gpu_too_small', { neededGb: minVramGb, gpuGb })
}

/** An order that its template has completed. `templateId` is then `ID@VERSION`. */
export interface ExpandedOrder<Order> {
  readonly order: Order
  readonly templateId: string | null
  readonly minVramGb: number
}

export async function expandTemplate<Order extends OrderOptions>(
  db: Db,
  actor: Actor,
  order: Order,
): Promise<Result<ExpandedOrder<Order>>> {
  if (order.templateId === undefined) return ok({ order, templateId: null, minVramGb: 0 })
  const template = await findTemplate(db, actor, order.templateId)
  if (!template.ok) return failField(['templateId'], 'template_not_found', { id: order.templateId })
  const { id, version, body, account_id: owner } = template.value
  // Without a version, the owner could change the template between the customer's look and the order. The operator's
  // own templates are trusted.
  if (owner !== null && owner !== actor.accountId && !order.templateId.includes('@'))
    return failField(['templateId'], 'template_version_missing', { id, version })
  const completed = completeOrder(order, body)
  // A template of another account gets only the secrets that the customer named in the order.
  const secrets = owner === actor.accountId ? [] : unnamedSecrets(order, completed)
  if (secrets.length > 0) return failField(['secrets'], 'template_secrets_not_named', { secrets })
  const param = missingParam(body, completed.env ?? {})
  if (param !== undefined) return failField(['env', param], 'template_param_missing', { param })
  return ok({ order: completed, templateId: `${id}@${version}`, minVramGb: body.minVramGb ?? 0 })
}
