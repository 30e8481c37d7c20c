/** Form values and the resulting requests, without a browser. */
import { describe, expect, test } from 'vitest'
import { isFirstDone, nextOnceKey } from '../../console/api/once.ts'
import { bodyOf, checkDraft, emptyDraft, modelsOf, type KeyDraft } from '../../console/pages/keys/draft.ts'
import { sshKeyComment, sshKeyFault } from '../../console/pages/ssh-keys/text.ts'
import { daysOf, presetsAt, rangeFault, rangeOf } from '../../console/pages/usage/range.ts'
import { instantOf } from '../../src/base/instant.ts'
import { api } from '../../src/contract/api.ts'
import { ApiError, TransportError } from '../../src/client/error.ts'
import { testSshKey } from '../harness/server.ts'

const now = instantOf(Date.UTC(2026, 10, 15, 13, 30))

/** Fields with an error from the schema or the form. */
function faultsOf(draft: KeyDraft): string[] {
  const issues = api.createApiKey.body?.safeParse(bodyOf(draft, now)).error?.issues ?? []
  const own = Object.entries(checkDraft(draft, now)).flatMap(([name, fault]) => (fault === undefined ? [] : [name]))
  return [...issues.map(({ path }) => String(path[0])), ...own]
}

describe('the form of a key', () => {
  const draft = { ...emptyDraft, name: ' laptop ', scopes: ['inference' as const] }

  test('leaves out empty limits', () => {
    expect(faultsOf(draft)).toEqual([])
    expect(bodyOf(draft, now)).toEqual({ name: 'laptop', scopes: ['inference'] })
  })

  test('sends everything that was typed', () => {
    const full = {
      ...draft,
      expiry: '7',
      monthlyLimitUsd: '25.50',
      totalLimitUsd: '100',
      requestsPerMinute: '600',
      tokensPerMinute: '90000',
      allowedModels: 'acme/large\n acme/small, acme/large\n',
    }
    expect(faultsOf(full)).toEqual([])
    expect(bodyOf(full, now)).toEqual({
      name: 'laptop',
      scopes: ['inference'],
      expiresAt: '2026-11-22T13:30:00.000Z',
      monthlyLimitUsd: '25.50',
      totalLimitUsd: '100',
      requestsPerMinute: 600,
      tokensPerMinute: 90_000,
      allowedModels: ['acme/large', 'acme/small'],
    })
    expect(modelsOf(draft)).toEqual([])
  })

  test.each([
    ['name', { name: ' ' }],
    ['scopes', { scopes: [] }],
    ['expiryDay', { expiry: 'day' }],
    ['expiryDay', { expiry: 'day', expiryDay: '2026-11-13' }],
    ['monthlyLimitUsd', { monthlyLimitUsd: '-1' }],
    ['totalLimitUsd', { totalLimitUsd: '1,5' }],
    ['requestsPerMinute', { requestsPerMinute: '0' }],
    ['tokensPerMinute', { tokensPerMinute: '1.5' }],
  ])('rejects an invalid %s (%o)', (field, part) => {
    expect(faultsOf({ ...draft, ...part })).toEqual([field])
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
