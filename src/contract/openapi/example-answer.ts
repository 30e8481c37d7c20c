/**
 * An example response derived from a schema: every field is present, with a value that fits its name and its rules. A
 * test parses each example with its schema, so a field without a fitting value fails.
 */
import type { Json, JsonObject } from './openapi-schema.ts'

const TIME = '2026-11-14T12:00:00.000Z'

/** The first rule whose name fits and whose value the schema allows. */
const preferredChoices: ReadonlySet<Json> = new Set([
  'Running',
  'online',
  'active',
  'mock',
  'owner',
  'reserved',
  'ready',
])
/** Nullable fields that are usually null. */
const usuallyNull =
  /^(deletedAt|terminatedAt|terminated_at|revokedAt|suspendedAt|stuckSince|end|managedK8sClusterId|terminateRequestedAt|nextCursor|next_cursor|error|picture|.*(Error|Reason))$/

const texts: ReadonlyArray<readonly [RegExp, string]> = [
  [/^cuda$/, '13.0'],
  [/^variables$/, 'VLLM_CACHE_ROOT'],
  [/Usd|^usd|_usd/, '12.500000000'],
  [/month/i, '2026-11'],
  [/^(day|from|to)$/, '2026-11-14'],
  [/(At|_at|After|Until|Since|^at|^until|^since|^seen|^start|^end|^created|timestamp|empty)$/, TIME],
  [/^amount$/, '1250'],
  [/email/i, 'ada@example.com'],
  [/requestId|^request_id/, 'req_cc1cbf2556a145c74b1c4df0a8df525b'],
  [/^(accountId|orgId|owner|supplier_?id)$/i, 'acc_0Kr3RmwBFqQhQCy99nMrh'],
  [/^(userId|memberId|personId)$/, 'usr_0Kr3RmwBFqQhQCy99nMrh'],
  [/publicId/, '45VYuAnN5bLSHC'],
  [/publicKey/, 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ9f1mO0kq ada@laptop'],
  [/fingerprint/, 'SHA256:4b5doxIJ9f1mO0kq7592'],
  [/^(key|token|secret)$/, 'shown-once'],
  [/sha256/i, '9ee11adf737960ff06123d5c4fba24d12c5b05ba460a7afa88950fbf2b61add0'],
  [/sshCommand/, 'ssh ubuntu@203.0.113.5 -p 36514'],
  [/^(domain|host|vip|hostname|.*ip)$/i, '203.0.113.5'],
  [/url|source|picture/i, 'https://example.com/berth'],
  [/^hubModel$/, 'Qwen/Qwen3-8B'],
  [/cpus?_?model/i, 'AMD EPYC 9554'],
  [/gpus?_?model/i, 'NVIDIA-H100-SXM5-80GB'],
  [/^(instance_name|instance_id|nodeName)$/, 'brave-teal-otter'],
  [/externalId/, 'berth-3kq7-17-9f1c2ab4'],
  [/label/, 'training'],
  [/name/i, 'harbour'],
  [/^hubModel$/, 'Qwen/Qwen3-8B'],
  [/model/i, 'tinyllama-1.1b-chat'],
  [/role/, 'assistant'],
  [/^last4$/, 'k3Qz'],
  [/^protocol$/, 'tcp'],
  [/^(user|sshUser|loginUser)$/, 'ubuntu'],
  [/^status$/, 'node_ready'],
  [/^interface$/, 'PCIe 5.0 x16'],
  [/^finish_reason$/, 'stop'],
  [/^(content|text)$/, 'A place for a ship.'],
  [/^(image|audio|b64_json)$/, 'iVBORw0KGgo='],
  [/^period$/, 'hourly'],
  [/^agent$/, 'platform'],
  [/region/i, 'us-east'],
  [/cursor/i, 'eyJpZCI6MTd9'],
  [/message/i, 'Done'],
  [/memo/, 'Purchase'],
  [/reason|note/i, 'as agreed'],
  [/^id$|Id$/, '0Kr3RmwBFqQhQCy99nMrh'],
  [/path/i, '/root/config.json'],
  [/^mode$/, '0644'],
  [/./, 'text'],
  [/./, '12.500000000'],
  [/./, TIME],
  [/./, '1'],
]

const numbers: ReadonlyArray<readonly [RegExp, number]> = [
  [/^created$/, 1_794_726_402],
  [/(cost|price|amount)/i, 2.49],
  [/gpu.*count|gpus/i, 8],
  [/size|volumeGb/i, 1_024],
  [/storage|capacity/i, 15_360],
  [/ram/i, 1_024],
  [/cpu|cores/i, 128],
  [/port/i, 8_080],
  [/percent/i, 10],
  [/termPeriodDays/, 30],
  [/tokens/i, 20],
  [/rental|volume|^id$/i, 17],
]

type Components = Readonly<Record<string, JsonObject>>

export function exampleOf(schema: JsonObject, components: Components, name = ''): Json {
  const { $ref } = schema
  if (typeof $ref === 'string') return exampleOf(components[$ref.split('/').at(-1) ?? ''] ?? {}, components, name)
  if (schema['const'] !== undefined) return schema['const']
  const choices = schema['enum'] as readonly Json[] | undefined
  if (choices !== undefined) return choices.find((choice) => preferredChoices.has(choice)) ?? choices[0] ?? null
  const variants = (schema['oneOf'] ?? schema['anyOf']) as readonly JsonObject[] | undefined
  if (variants !== undefined) {
    const values = variants.filter((variant) => variant['type'] !== 'null')
    if (values.length < variants.length && usuallyNull.test(name)) return null
    const [first] = values
    return first === undefined ? null : exampleOf(first, components, name)
  }
  const types = [schema['type']].flat().map(String)
  if (types.length > 1 && types.includes('null') && usuallyNull.test(name)) return null
  switch (types.find((type) => type !== 'null') ?? types[0] ?? '') {
    case 'object':
      return exampleObject(schema, components, name)
    case 'array':
      return [exampleOf((schema['items'] ?? {}) as JsonObject, components, name)]
    case 'string':
      return texts.find(([fits, value]) => fits.test(name) && isAllowed(schema, value))?.[1] ?? ''
    case 'integer':
    case 'number':
      return exampleNumber(schema, name)
    case 'boolean':
      return true
    case 'null':
      return null
    default:
      // Any value is valid; untyped fields of the interface that are IDs get a number.
      return /id$/i.test(name) ? 17 : {}
  }
}

function exampleObject(schema: JsonObject, components: Components, parent: string): Json {
  const fields = Object.entries((schema['properties'] ?? {}) as Readonly<Record<string, JsonObject>>)
  // The model of a GPU or CPU is not a language model.
  const nameOf = (name: string) => (name === 'model' && /[cg]pu/i.test(parent) ? `${parent}_model` : name)
  return Object.fromEntries(fields.map(([name, field]) => [name, exampleOf(field, components, nameOf(name))]))
}

function exampleNumber(schema: JsonObject, name: string): number {
  const value = numbers.find(([fits]) => fits.test(name))?.[1] ?? 1
  const least = Number(schema['minimum'] ?? schema['exclusiveMinimum'] ?? -Infinity)
  const most = Number(schema['maximum'] ?? Infinity)
  const near = Math.min(Math.max(value, least), most)
  return [schema['type']].flat().includes('integer') ? Math.round(near) : near
}

function isAllowed({ minLength = 0, maxLength = Infinity, pattern }: JsonObject, value: string): boolean {
  if (value.length < Number(minLength) || value.length > Number(maxLength)) return false
  return typeof pattern !== 'string' || new RegExp(pattern, 'u').test(value)
}
