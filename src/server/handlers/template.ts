/** Templates over HTTP, and the order with which a rental was created. */
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { ok } from '../../contract/result.ts'
import { idleRule } from '../../contract/workload.ts'
import type { Actor } from '../../app/app.ts'
import { createOnce } from '../../app/idempotency.ts'
import { findAnyRental } from '../../app/rental/own-rental.ts'
import { changeTemplate, createTemplate, deleteTemplate, findTemplate } from '../../app/account/template.ts'
import { orderOf } from '../../domain/template.ts'
import { secretNamesOf, workloadOf } from '../../domain/workload.ts'
import { transact } from '../../store/platform/database.ts'
import { withDefaults } from '../../store/platform/stored-json.ts'
import { countTemplateUse, listTemplates, type Template } from '../../store/account/template.ts'
import type { Handlers } from '../http/handler.ts'

export const templateHandlers = {
  listTemplates: async (app, { actor }) => {
    const { db } = app.database
    const [templates, uses] = await Promise.all([
      listTemplates(db, actor.accountId),
      countTemplateUse(db, actor.accountId),
    ])
    return ok({
      templates: templates.map((one) => ({ ...templateOnWire(one, actor), usedBy: uses.get(one.id) ?? 0 })),
    })
  },

  getTemplate: async (app, { actor, params }) => {
    const template = await findTemplate(app.database.db, actor, params.id)
    return template.ok ? ok(templateOnWire(template.value, actor)) : template
  },

  createTemplate: (app, { actor, body, operation, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: { body } }, async (tx) => {
      const { name, visibility = 'private', forEveryone = false, ...fields } = body
      const created = await createTemplate(tx, actor, { name, visibility, forEveryone, body: fields })
      return created.ok ? ok(templateOnWire(created.value, actor)) : created
    }),

  changeTemplate: async (app, { actor, params, body }) => {
    const { name, visibility, ...fields } = body
    const change = { name, visibility, body: fields }
    const changed = await transact(app.database, (tx) => changeTemplate(tx, actor, params.id, change))
    return changed.ok ? ok(templateOnWire(changed.value, actor)) : changed
  },

  deleteTemplate: async (app, { actor, params }) => {
    const deleted = await transact(app.database, (tx) => deleteTemplate(tx, actor, params.id))
    return deleted.ok ? ok({ message: 'Template deleted' }) : deleted
  },

  getRentalOrder: async (app, { actor, params }) => {
    const rental = await findAnyRental(app.database.db, actor, params.id)
    if (!rental.ok) return rental
    const { idle } = rental.value
    return ok(orderOf({ ...rental.value, idle: idle === null ? null : withDefaults(idleRule, idle) }))
  },
} satisfies Partial<Handlers>

function templateOnWire(template: Template, actor: Actor): ResponseOf<Api['getTemplate']> {
  const { id, name, version, visibility, account_id: owner, body } = template
  return {
    id,
    name,
    version,
    owner: owner === null ? 'operator' : owner === actor.accountId ? 'account' : 'other',
    visibility: owner === null ? 'public' : visibility,
    createdAt: template.created_at,
    updatedAt: template.updated_at,
    secrets: secretNamesOf(workloadOf(body, null)),
    ...body,
  }
}
