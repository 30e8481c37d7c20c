/**
 * Questions to the user, before a tool spends much or destroys something. A client of 2026-07-28 gets the question as the
 * result of its call and repeats the call with the answer and our signed state. A client that cannot ask its user has to
 * repeat the call with the name of the thing in `confirm`.
 */
import { inputRequired, type InputRequiredResult, type ServerContext } from '@modelcontextprotocol/server'
import { z } from 'zod'
import type { App } from '../../app/app.ts'
import { sha256 } from '../../base/id.ts'
import { addMs, MINUTE_MS } from '../../base/instant.ts'
import { fail, type Failure } from '../../contract/result.ts'
import type { Authenticated } from '../http/authenticate.ts'
import { readSigned, signText } from './signed-text.ts'

const PURPOSE = 'mcp question'
const ANSWER_MS = 10 * MINUTE_MS
/** The key of the question among the requests for input. */
const QUESTION = 'confirm'

export interface Question {
  /** To be repeated in `confirm` where nobody can be asked. */
  readonly name: string
  readonly message: string
}

/** A call that may need the user's consent. */
export interface AskedCall {
  readonly app: Pick<App, 'vault' | 'clock'>
  readonly caller: Pick<Authenticated, 'keyId' | 'accountId'>
  readonly tool: string
  readonly args: Readonly<Record<string, unknown>>
  readonly context: ServerContext
  readonly canAsk: boolean
}

const state = z.strictObject({ keyId: z.string(), digest: z.string(), expiresAt: z.number() })
const answer = z.object({ action: z.string(), content: z.object({ confirm: z.boolean() }).optional() })

export type Consent =
  | { readonly kind: 'given' }
  | { readonly kind: 'refused'; readonly failure: Failure }
  | { readonly kind: 'asked'; readonly result: InputRequiredResult }

export function askUser(call: AskedCall, question: Question): Consent {
  if (!call.canAsk) {
    if (call.args['confirm'] === question.name) return { kind: 'given' }
    return { kind: 'refused', failure: fail('confirmation_required', question) }
  }
  const { mcpReq } = call.context
  const sent = mcpReq.requestState()
  if (sent === undefined) return { kind: 'asked', result: questionResult(call, question) }
  if (typeof sent !== 'string' || !isStateOf(call, question, sent)) {
    return { kind: 'refused', failure: fail('confirmation_invalid') }
  }
  const { data } = answer.safeParse(mcpReq.inputResponses?.[QUESTION])
  if (data?.action === 'accept' && data.content?.confirm === true) return { kind: 'given' }
  return { kind: 'refused', failure: fail('declined_by_user') }
}

function questionResult(call: AskedCall, { name, message }: Question): InputRequiredResult {
  return inputRequired({
    inputRequests: {
      [QUESTION]: inputRequired.elicit({
        message,
        requestedSchema: {
          type: 'object',
          properties: { confirm: { type: 'boolean', title: 'Go ahead' } },
          required: ['confirm'],
        },
      }),
    },
    requestState: signText(call.app.vault, PURPOSE, {
      keyId: call.caller.keyId,
      digest: digestOf(call, name),
      expiresAt: addMs(call.app.clock.now(), ANSWER_MS),
    }),
  })
}

function isStateOf(call: AskedCall, { name }: Question, text: string): boolean {
  const { data } = state.safeParse(readSigned(call.app.vault, PURPOSE, text))
  if (data === undefined || data.keyId !== call.caller.keyId || data.expiresAt <= call.app.clock.now()) return false
  return data.digest === digestOf(call, name)
}

/** Covers the tool, its arguments and their subject, so that an answer counts for nothing else. Costs may have grown meanwhile. */
function digestOf({ caller, tool, args }: AskedCall, name: string): string {
  const inOrder = Object.entries(args).toSorted(([one], [other]) => (one < other ? -1 : 1))
  return sha256(JSON.stringify([caller.accountId, tool, inOrder, name])).toString('base64url')
}
