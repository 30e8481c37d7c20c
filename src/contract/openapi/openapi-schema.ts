/**
 * zod to OpenAPI schemas. Schemas with an id become components, each written once; everything else stays where it is
 * used. zod's JSON Schema is stricter than the interface in places; the rules here undo that.
 */
import { z } from 'zod'

export type Json = string | number | boolean | null | readonly Json[] | JsonObject
export interface JsonObject {
  readonly [key: string]: Json | undefined
}

export type Direction = 'input' | 'output'

export interface SchemaWriter {
  /** The schema, with `$ref`s to components where it has a name. */
  readonly write: (schema: z.ZodType, direction: Direction) => JsonObject
  /** The components so far, by name. */
  readonly components: () => Record<string, JsonObject>
}

/** `mark` can add to each schema before it is written. */
export function makeSchemaWriter(mark?: Override): SchemaWriter {
  const named = new Map<string, string>()
  const written = { input: new Map<z.ZodType, JsonObject>(), output: new Map<z.ZodType, JsonObject>() }
  return {
    write(schema, direction) {
      const before = written[direction].get(schema)
      if (before !== undefined) return before
      const override: Override = (context) => {
        relax(context)
        mark?.(context)
      }
      const raw = z.toJSONSchema(schema, { target: 'draft-2020-12', io: direction, override })
      const { $schema: _, $defs, ...own } = pointToComponents(raw as JsonObject)
      for (const [name, definition] of Object.entries(($defs ?? {}) as Record<string, JsonObject>)) {
        const text = JSON.stringify(definition)
        // A default makes a field optional in a request and required in a response: one component cannot be both.
        if ((named.get(name) ?? text) !== text) throw new Error(`schema ${name} differs between request and response`)
        named.set(name, text)
      }
      written[direction].set(schema, own)
      return own
    },
    components: () =>
      Object.fromEntries(
        [...named].sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, text]) => [name, JSON.parse(text) as JsonObject]),
      ),
  }
}

type Override = NonNullable<NonNullable<Parameters<typeof z.toJSONSchema>[1]>['override']>

const relax: Override = ({ zodSchema, jsonSchema }) => {
  // Only records closed by the interface are closed; others can gain fields without breaking strict readers.
  if (zodSchema instanceof z.ZodObject && zodSchema.def.catchall === undefined) delete jsonSchema.additionalProperties
  // Keys of a JSON object are strings.
  delete jsonSchema.propertyNames
  // "Any value or null" is any value.
  if (zodSchema instanceof z.ZodNullable && isUnconstrained(zodSchema.unwrap())) delete jsonSchema.anyOf
  // The format replaces zod's page-long pattern.
  if (jsonSchema.format !== undefined) delete jsonSchema.pattern
  if (zodSchema instanceof z.ZodNumber && zodSchema.format === 'int32') jsonSchema.format = 'int32'
  // A query is text on the wire; readers need to know that it is a boolean.
  if (zodSchema instanceof z.ZodPipe && zodSchema.def.out instanceof z.ZodBoolean) jsonSchema.type = 'boolean'
}

function isUnconstrained(schema: z.core.$ZodType): boolean {
  return schema instanceof z.ZodUnknown || schema instanceof z.ZodAny
}

function pointToComponents(schema: JsonObject): JsonObject {
  return JSON.parse(JSON.stringify(schema), (key: string, value: Json) =>
    key === '$ref' && typeof value === 'string' ? value.replace('#/$defs/', '#/components/schemas/') : value,
  ) as JsonObject
}
