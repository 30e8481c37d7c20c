/** Templates of orders (v2). */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { imageName, imageTag, orderOfRental } from './rental-order.ts'
import { idOrNameParams } from './rental-session.ts'
import { message, textIdParams, timestamp } from './shared.ts'
import { environmentName, programFields, workloadPorts } from './workload.ts'

const templateImage = z.strictObject({
  name: imageName,
  tag: imageTag.optional(),
})

const templateParam = z.strictObject({
  name: environmentName.describe('Environment variable that the customer sets'),
  description: z.string().max(limits.reasonChars).optional(),
  secret: z.boolean().default(false).describe('Give it as a reference to a secret'),
  required: z.boolean().default(false),
})

const templateIcons = ['box', 'terminal', 'flame', 'notebook', 'message', 'image', 'chart', 'code'] as const

const templateFields = {
  icon: z.enum(templateIcons).optional(),
  summary: z.string().max(limits.reasonChars).optional().describe('One sentence'),
  readme: z.string().max(limits.templateReadmeChars).optional().describe('Markdown'),
  image: templateImage.optional().describe("Absent: the host's default image"),
  ...programFields,
  ports: workloadPorts.optional(),
  minVramGb: z.number().min(0).max(10_000).optional().describe('Memory that each GPU needs'),
  params: z.array(templateParam).max(limits.environmentVariables).optional(),
}
/** The content of one version of a template. */
export const templateBody = z.object(templateFields)
export type TemplateBody = z.output<typeof templateBody>
/** null: the field is removed. */
export type TemplateChange = { readonly [Name in keyof TemplateBody]: TemplateBody[Name] | null }

const visibility = z.enum(['private', 'link']).describe('`link`: anyone who knows the ID can use it')
const nameText = z.string().trim().min(1).max(limits.nameChars)

const templateRecord = z
  .object({
    id: z.string(),
    name: z.string(),
    version: z.int(),
    owner: z.enum(['account', 'operator', 'other']),
    visibility: z.enum(['private', 'link', 'public']),
    createdAt: timestamp,
    updatedAt: timestamp,
    secrets: z
      .array(z.string())
      .describe(
        'Secrets that it refers to. An order names those that a template of someone else may use, in `secrets`',
      ),
    ...templateFields,
  })
  .meta({ id: 'Template' })

const listedTemplate = templateRecord
  .extend({ usedBy: z.int().describe('Rentals of your account that were ordered with it and have not ended') })
  .meta({ id: 'ListedTemplate' })

const template = { family: 'v2', tag: 'Templates' } as const

type Optional<Fields extends z.ZodRawShape> = {
  [Name in keyof Fields]: Fields[Name] extends z.ZodOptional<infer Type extends z.ZodType>
    ? z.ZodOptional<z.ZodNullable<Type>>
    : never
}

/** The fields of a change: null removes one. */
function removable<Fields extends Record<string, z.ZodOptional>>(fields: Fields): Optional<Fields> {
  const entries = Object.entries(fields).map(([name, field]) => {
    const { description } = field
    const changed = (field.unwrap() as z.ZodType).nullable().optional()
    return [name, description === undefined ? changed : changed.describe(description)]
  })
  return Object.fromEntries(entries)
}

/** A schema for an answer that repeats a request. It has no times or amounts. */
function asSent<T extends z.ZodType>(schema: T): z.ZodType<z.input<T>, z.input<T>> {
  return schema as unknown as z.ZodType<z.input<T>, z.input<T>>
}

export const templateEndpoints = {
  getRentalOrder: endpoint({
    ...template,
    method: 'GET',
    path: '/v2/rentals/{id}/order',
    access: ['compute:read'],
    summary: 'Get the order that makes a rental like this one',
    description: 'Send `order` to `createRental` to rent again, or use `template` to create a template.',
    errors: [400, 401, 403, 404, 500],
    params: idOrNameParams,
    response: z.object({ order: asSent(orderOfRental), template: asSent(templateBody) }),
  }),
  listTemplates: endpoint({
    ...template,
    method: 'GET',
    path: '/v2/templates',
    access: ['compute:read'],
    summary: "List your templates and the operator's",
    errors: [400, 401, 403, 500],
    response: z.object({ templates: z.array(listedTemplate) }),
  }),
  getTemplate: endpoint({
    ...template,
    method: 'GET',
    path: '/v2/templates/{id}',
    access: ['compute:read'],
    summary: 'Get a template, or one version of it (`ID@VERSION`)',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: templateRecord,
  }),
  createTemplate: endpoint({
    ...template,
    method: 'POST',
    path: '/v2/templates',
    access: ['compute:write', 'operator'],
    summary: 'Create a template',
    errors: [400, 401, 403, 404, 500],
    body: z
      .strictObject({
        name: nameText,
        visibility: visibility.optional(),
        forEveryone: z.boolean().optional().describe("One of the operator's templates; needs scope `operator`"),
        ...templateFields,
      })
      .meta({ id: 'CreateTemplate' }),
    response: templateRecord,
    idempotent: true,
  }),
  changeTemplate: endpoint({
    ...template,
    method: 'PATCH',
    path: '/v2/templates/{id}',
    access: ['compute:write', 'operator'],
    summary: 'Change a template; its fields become a new version',
    description:
      'Fields that are given replace those of the template, and null removes one. Rentals keep what they were ordered with.',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    body: z
      .strictObject({ name: nameText.optional(), visibility: visibility.optional(), ...removable(templateFields) })
      .meta({ id: 'ChangeTemplate' }),
    response: templateRecord,
  }),
  deleteTemplate: endpoint({
    ...template,
    method: 'DELETE',
    path: '/v2/templates/{id}',
    access: ['compute:write', 'operator'],
    summary: 'Delete a template; rentals made with it continue',
    errors: [400, 401, 403, 404, 500],
    params: textIdParams,
    response: message,
  }),
}
