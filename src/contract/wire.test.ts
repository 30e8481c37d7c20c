/** The compiled conversions of answers, against those of the schema library. */
import { expect, test } from 'vitest'
import { z } from 'zod'
import { instantOf } from '../base/instant.ts'
import { usd } from '../base/money.ts'
import { api, type OperationId } from './api.ts'
import { contentTypeOf } from './endpoint.ts'
import { exampleOf } from './openapi/example-answer.ts'
import { makeSchemaWriter } from './openapi/openapi-schema.ts'
import { readerOf, writerOf } from './wire.ts'

const operations = (Object.keys(api) as OperationId[]).filter((name) => contentTypeOf(api[name]) === 'application/json')

test.each(operations)('%s: an example is read and written as by its schema', (operation) => {
  const schema: z.ZodType = api[operation].response
  const { write, components } = makeSchemaWriter()
  const described = write(schema, 'output')
  const example = exampleOf(described, components())
  const value = readerOf(operation)(example)
  // Parsing also drops unknown fields and fills in defaults; the example has neither.
  expect(value).toEqual(schema.parse(example))
  const text = JSON.stringify(writerOf(operation)(value))
  expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(z.encode(schema, value))))
})

test('an answer is copied: the value of the handler stays', () => {
  const balances = { postingKey: 'p', replayed: false, availableUsd: usd('-0.5') }
  expect(writerOf('creditAccount')(balances)).toEqual({ ...balances, availableUsd: '-0.500000000' })
  expect(balances.availableUsd).toBe(usd('-0.5'))
})

test('fields keep their order, and null and absent values stay', () => {
  const at = instantOf(Date.UTC(2026, 10, 14))
  const volume = { createdAt: at, name: 'x', updatedAt: null, deletedAt: undefined, costPerHour: usd('0.25') }
  expect(JSON.stringify(writerOf('listVolumes')([volume]))).toBe(
    '[{"createdAt":"2026-11-14T00:00:00.000Z","name":"x","updatedAt":null,"costPerHour":0.25}]',
  )
})

test('an operation without money and times is sent as it is', () => {
  const answer = { message: 'Token revoked' }
  expect(writerOf('revokePortToken')(answer)).toBe(answer)
})
