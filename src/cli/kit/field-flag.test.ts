/** Errors of the server name API fields; people type flags. */
import { expect, test } from 'vitest'
import { ApiError } from '../../client/error.ts'
import { fail } from '../../contract/result.ts'
import { withFlags } from './field-flag.ts'

test('a message names the flags of the command instead of fields, where it has them (issue 31, 17)', () => {
  const flags: Readonly<Record<string, string>> = { ifNoGpu: '--if-no-gpu', scopeValue: '--scope-value' }
  const messageOf = (message: string): string =>
    withFlags(new ApiError(message, { status: 400, code: 'BAD_REQUEST', issues: [] }), ([name = '']) => flags[name])
      .message
  const { message } = fail('no_gpu_on_host', { gpus: 2, free: 1, field: ['ifNoGpu'] })
  expect(message).toContain('ifNoGpu')
  expect(messageOf(message)).not.toContain('ifNoGpu')
  expect(messageOf('Start it with `ifNoGpu: "wait"` or later.')).toBe('Start it with --if-no-gpu or later.')
  expect(messageOf('Set scopeValue to the key.')).toBe('Set --scope-value to the key.')
  expect(messageOf('Use `nextCursor` from JavaScript.')).toBe('Use `nextCursor` from JavaScript.')
})
