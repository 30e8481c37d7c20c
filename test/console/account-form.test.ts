/** Form values and the resulting requests, without a browser. */
import { describe, expect, test } from 'vitest'
import { isFirstDone, nextOnceKey } from '../../console/api/once.ts'
import { collect, labelOf, valuesOf, type FieldValues } from '../../console/form/field.ts'
import { fieldTable } from '../../console/form/field-table.ts'
import { sshKeyComment, sshKeyFault } from '../../console/pages/ssh-keys/text.ts'
import { daysOf, presetsAt, rangeFault, rangeOf } from '../../console/pages/usage/range.ts'
import { instantOf, parseInstant } from '../../src/base/instant.ts'
import { api } from '../../src/contract/api.ts'
import { ApiError, TransportError } from '../../src/client/error.ts'
import { testSshKey } from '../harness/server.ts'

const now = instantOf(Date.UTC(2026, 10, 15, 13, 30))

const keyFields = [
  'name',
  'memberId',
  'scopes',
  'expiresAt',
  'monthlyLimitUsd',
  'totalLimitUsd',
  'requestsPerMinute',
  'tokensPerMinute',
  'allowedModels',
] as const

function keyOf(values: Partial<FieldValues<'createApiKey'>>) {
  return collect('createApiKey', keyFields, { ...valuesOf('createApiKey'), ...values })
}

describe('a form with the fields of an operation', () => {
  const values = { name: ' laptop ', scopes: ['inference' as const] }

  test('leaves out what is empty', () => {
    expect(keyOf(values)).toEqual({ name: 'laptop', scopes: ['inference'] })
  })

  test('sends everything that was typed, with its type', () => {
    const key = keyOf({
      ...values,
      expiresAt: '2026-11-22T13:30',
      monthlyLimitUsd: '25.50',
      totalLimitUsd: '100',
      requestsPerMinute: '600',
      tokensPerMinute: '90000',
      allowedModels: 'acme/large\n acme/small, acme/large\n',
    })
    expect(api.createApiKey.body?.safeParse(key).success).toBe(true)
    expect(key).toMatchObject({
      monthlyLimitUsd: '25.50',
      totalLimitUsd: '100',
      requestsPerMinute: 600,
      tokensPerMinute: 90_000,
      allowedModels: ['acme/large', 'acme/small'],
    })
    expect(parseInstant(String(key['expiresAt']))).toBe(parseInstant('2026-11-22T13:30'))
  })

  test.each([
    ['name', { name: ' ' }],
    ['scopes', { scopes: [] }],
    ['expiresAt', { expiresAt: 'tomorrow' }],
    ['monthlyLimitUsd', { monthlyLimitUsd: '-1' }],
    ['totalLimitUsd', { totalLimitUsd: '1,5' }],
    ['requestsPerMinute', { requestsPerMinute: '0' }],
    ['tokensPerMinute', { tokensPerMinute: '1.5' }],
  ])('leaves an invalid %s to the schema (%o)', (field, part) => {
    const issues = api.createApiKey.body?.safeParse(keyOf({ ...values, ...part })).error?.issues ?? []
    expect(new Set(issues.map(({ path }) => path[0]))).toEqual(new Set([field]))
  })

  test('sends only what changed, and with a group its parts that have a default', () => {
    const settings = { replicas: { min: 1, max: 4 }, hourlyBudgetUsd: '12.500000000' }
    const before = valuesOf('changeManagedDeployment', settings)
    const fields = ['replicas.min', 'replicas.max', 'hourlyBudgetUsd'] as const
    const change = (typed: object) => collect('changeManagedDeployment', fields, { ...before, ...typed }, before)
    expect(before).toMatchObject({ 'replicas.min': '1', 'replicas.max': '4', hourlyBudgetUsd: '12.50' })
    expect(change({})).toEqual({})
    expect(change({ 'replicas.max': '2' })).toEqual({ replicas: { min: 1, max: 2 } })
    expect(change({ hourlyBudgetUsd: '' })).toEqual({ hourlyBudgetUsd: null })
  })

  test('sends an emptied list, a cleared box and the reason that is required', () => {
    const before = valuesOf('changeMachine', { listed: true, gpusSick: [0, 3], supplierId: 'acme' })
    const fields = ['listed', 'gpusSick', 'supplierId', 'reason'] as const
    const typed = { ...before, listed: false, gpusSick: '', supplierId: '' }
    expect(collect('changeMachine', fields, typed, before)).toEqual({
      listed: false,
      gpusSick: [],
      supplierId: null,
      reason: '',
    })
    expect(collect('changeMachine', fields, { ...before, gpusSick: '3 5' }, before)).toEqual({
      gpusSick: [3, 5],
      reason: '',
    })
  })

  test('keeps a required group, and leaves out one that nobody filled in', () => {
    const fields = ['hardware.cpuModel', 'bmc.url'] as const
    expect(collect('addHost', fields, valuesOf('addHost'))).toEqual({ hardware: { cpuModel: '' } })
  })

  test('has labels with units, from titles or names', () => {
    const label = (operation: keyof typeof fieldTable, path: string) =>
      labelOf(path, fieldTable[operation][path] ?? { kind: 'text' })
    expect(label('createApiKey', 'monthlyLimitUsd')).toBe('Monthly spending limit (USD)')
    expect(label('addHost', 'hardware.gpuClockMhz')).toBe('Clock (MHz)')
    expect(label('addBaseImage', 'loginUser')).toBe('Login user')
    expect(label('createManagedDeployment', 'recipe.contextTokens')).toBe('Context length (tokens)')
  })
})

describe('the form of an SSH key', () => {
  test('takes the name from the comment', () => {
    expect(sshKeyFault(`  ${testSshKey}\n`)).toBeUndefined()
    expect(sshKeyComment(testSshKey)).toBe('test@example.test')
  })

  test.each([
    ['', /^Paste/],
    ['-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA', /private key/],
    ['---- BEGIN SSH2 PUBLIC KEY ----\nAAAA', /ssh-keygen -i/],
    [`${testSshKey}\n${testSshKey}`, /on one line/],
    ['ssh-dss AAAA', /not supported/],
    [`from="10.0.0.1" ${testSshKey}`, /before the key/],
    ['~/.ssh/id_ed25519.pub', /starts with “~\/\.ssh\/id_ed25519\.pub”/],
    ['ssh-ed25519', /missing/],
  ])('explains %j', (text, fault) => {
    expect(sshKeyFault(text)).toMatch(fault)
    expect(sshKeyComment(text)).toBe('')
  })
})

describe('the range of usage', () => {
  test('defaults to the last thirty days', () => {
    expect(rangeOf({}, now)).toEqual({ from: '2026-10-17', to: '2026-11-15' })
    expect(rangeOf({ to: '2026-03-01' }, now)).toEqual({ from: '2026-01-31', to: '2026-03-01' })
    expect(rangeOf({ from: '2026-11-01' }, now)).toEqual({ from: '2026-11-01', to: '2026-11-15' })
    expect(daysOf({ from: '2026-02-27', to: '2026-03-01' })).toEqual(['2026-02-27', '2026-02-28', '2026-03-01'])
  })

  test('has presets that include today', () => {
    expect(presetsAt(now).map(({ name, from }) => [name, from])).toEqual([
      ['7 days', '2026-11-09'],
      ['30 days', '2026-10-17'],
      ['90 days', '2026-08-18'],
      ['This month', '2026-11-01'],
    ])
  })

  test('is at most a year, and in order', () => {
    expect(rangeFault({ from: '2026-11-15', to: '2026-11-15' })).toBeUndefined()
    expect(rangeFault({ from: '2026-11-16', to: '2026-11-15' })).toMatch(/must not be after/)
    expect(rangeFault({ from: '2025-11-15', to: '2026-11-15' })).toBeUndefined()
    expect(rangeFault({ from: '2025-11-14', to: '2026-11-15' })).toMatch(/366 days/)
  })
})

describe('the idempotency key of a form', () => {
  const refused = (status: number, reason: string): ApiError =>
    new ApiError('No', { status, code: 'NO', reason, issues: [] })

  test('stays the same while nothing was created, or the outcome is unknown', () => {
    const errors = [
      new TransportError('unreachable', 'The connection was cut'),
      new TransportError('timeout', 'No answer'),
      refused(500, 'internal'),
      refused(400, 'price_changed'),
      refused(402, 'insufficient_balance'),
    ]
    for (const error of errors) {
      expect(nextOnceKey('first', error)).toBe('first')
      expect(isFirstDone(error)).toBe(false)
    }
  })

  test('changes once something was created with it', () => {
    const used = refused(409, 'idempotency_key_reused')
    expect(isFirstDone(used)).toBe(true)
    const keys = [nextOnceKey('first', null), nextOnceKey('first', used), nextOnceKey('first', used)]
    for (const key of keys) expect(key).toMatch(/^[0-9a-f]{32}$/)
    expect(new Set(keys).size).toBe(3)
  })
})
