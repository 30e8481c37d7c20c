/** What the console does with requests that need a proof of who the person is. Promise 30 of sign-in. */
import { afterEach, expect, test } from 'vitest'
import { ApiError } from '../../src/client/error.ts'

type Proof = 'sign-in' | 'factor'

/** Imported by a variable: this compilation has no types of browsers. */
const stepUp = '../../console/api/step-up.ts'
const { askedProof, listen, sendWithProof, settle } = (await import(stepUp)) as {
  readonly askedProof: () => Proof | undefined
  readonly listen: (listener: () => void) => () => void
  readonly sendWithProof: <T>(send: () => Promise<T>) => Promise<T>
  readonly settle: (isProved: boolean) => void
}

/** What the dialog asked for, in order. */
let asked: Proof[] = []
let stop: () => void = () => undefined
afterEach(() => {
  stop()
  asked = []
})

/** A person who answers each dialog like this. */
function answerDialogs(isProved: boolean): void {
  stop = listen(() => {
    const proof = askedProof()
    if (proof === undefined) return
    asked.push(proof)
    settle(isProved)
  })
}

/** A request that is refused for each of these reasons, then succeeds. */
function refusedFor(...reasons: string[]): { readonly send: () => Promise<string>; readonly sent: () => number } {
  let sent = 0
  const send = async (): Promise<string> => {
    const reason = reasons[sent]
    sent += 1
    if (reason === undefined) return 'done'
    throw new ApiError(reason, {
      status: 403,
      code: 'forbidden',
      reason,
      issues: [],
    })
  }
  return { send, sent: () => sent }
}

test('promise 30: a refused request is sent again after the proof that it needs', async () => {
  answerDialogs(true)
  expect(await sendWithProof(refusedFor().send)).toBe('done')
  expect(asked).toEqual([])
  expect(await sendWithProof(refusedFor('recent_sign_in_required').send)).toBe('done')
  expect(await sendWithProof(refusedFor('passkey_required').send)).toBe('done')
  expect(asked).toEqual(['sign-in', 'factor'])
})

test('promise 30: after a code by email it asks for a passkey, once', async () => {
  answerDialogs(true)
  expect(await sendWithProof(refusedFor('recent_sign_in_required', 'passkey_required').send)).toBe('done')
  expect(asked).toEqual(['sign-in', 'factor'])
  const never = refusedFor('recent_sign_in_required', 'passkey_required', 'passkey_required', 'passkey_required')
  await expect(sendWithProof(never.send)).rejects.toMatchObject({ reason: 'passkey_required' })
  expect(never.sent()).toBe(3)
})

test('who closes the dialog sees the refusal, and other refusals open none', async () => {
  answerDialogs(false)
  const closed = refusedFor('passkey_required')
  await expect(sendWithProof(closed.send)).rejects.toMatchObject({ reason: 'passkey_required' })
  expect([asked, closed.sent()]).toEqual([['factor'], 1])
  await expect(sendWithProof(refusedFor('key_is_limited').send)).rejects.toMatchObject({ reason: 'key_is_limited' })
  expect(asked).toEqual(['factor'])
})

test('one dialog serves all requests that wait, and asks for the strongest proof among them', async () => {
  const requests = Promise.all(
    ['recent_sign_in_required', 'passkey_required'].map((reason) => sendWithProof(refusedFor(reason).send)),
  )
  await new Promise((resolve) => setImmediate(resolve))
  expect(askedProof()).toBe('factor')
  settle(true)
  expect(await requests).toEqual(['done', 'done'])
  expect(askedProof()).toBeUndefined()
})
