/**
 * The ceremonies of passkeys: a path that asks for an answer of an authenticator, and one that takes it. A cookie ties both to
 * one browser. The same paths renew the sign-in of a session (step-up), as codes by email do.
 */
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { redeemRecoveryCode } from '../../app/person/factor.ts'
import { addPasskey, beginPasskey, beginPasskeySignIn, redeemPasskey, type Flow } from '../../app/person/passkey.ts'
import { signInPerson } from '../../app/person/session.ts'
import { sha256 } from '../../base/id.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import {
  ADD_PASSKEY_PATH,
  BEGIN_PASSKEY_PATH,
  PASSKEY_PATH,
  RECOVERY_CODE_PATH,
  REDEEM_PASSKEY_PATH,
} from '../../contract/session.ts'
import { newPasskey, passkeyAnswer, redeemCode } from '../../contract/session-body.ts'
import { writerOf } from '../../contract/wire.ts'
import { transact } from '../../store/platform/database.ts'
import { countFailedKey } from '../http/access.ts'
import { sessionTokenOf } from '../http/credentials.ts'
import { passkeyOnWire } from '../handlers/factor.ts'
import { addPath, addPersonPath, browserOf, openSession, type ConsoleOptions } from './console-request.ts'
import { beginFlow, flowOf } from './flow.ts'

/** Nothing of it is read. */
const anyBody = z.unknown()

export function addPasskeyRoutes(server: FastifyInstance, options: ConsoleOptions): void {
  addSignInRoutes(server, options)
  addOwnRoutes(server, options)
}

function addSignInRoutes(server: FastifyInstance, options: ConsoleOptions): void {
  const { app } = options
  addPath(server, options, PASSKEY_PATH, anyBody, ({ request, reply }) =>
    beginPasskeySignIn(app, { flowHash: sha256(beginFlow(request, reply)) }),
  )

  addPath(server, options, REDEEM_PASSKEY_PATH, passkeyAnswer, async ({ body, request, reply }) => {
    const flow = hashedFlow(request)
    const proof = { method: 'passkey', providerId: null, hasFactor: true } as const
    const token = flow.ok
      ? await redeemPasskey(app, flow.value, body as AuthenticationResponseJSON, (tx, personId) =>
          signInPerson(tx, personId, proof, browserOf(request), sessionTokenOf(request.headers)),
        )
      : flow
    if (!token.ok) return countFailedKey(options, token, request, reply)
    openSession(request, reply, token.value)
    return ok({})
  })
}

function addOwnRoutes(server: FastifyInstance, options: ConsoleOptions): void {
  const { app } = options
  addPersonPath(server, options, BEGIN_PASSKEY_PATH, anyBody, ({ caller, request, reply }) =>
    beginPasskey(app, caller, { flowHash: sha256(beginFlow(request, reply)) }),
  )

  addPersonPath(server, options, ADD_PASSKEY_PATH, newPasskey, async ({ body, caller, request, reply }) => {
    const flow = hashedFlow(request)
    if (!flow.ok) return flow
    const { name, response } = body
    const added = await addPasskey(app, caller, flow.value, { name, response: response as RegistrationResponseJSON })
    if (!added.ok) return added
    const { passkey, token } = added.value
    openSession(request, reply, token)
    return ok(writerOf('renamePasskey')(passkeyOnWire(passkey)) as object)
  })

  addPersonPath(server, options, RECOVERY_CODE_PATH, redeemCode, async ({ body, caller, request, reply }) => {
    const token = await transact(app.database, (tx) => redeemRecoveryCode(tx, caller, body.code))
    if (!token.ok) return countFailedKey(options, token, request, reply)
    openSession(request, reply, token.value)
    return ok({})
  })
}

function hashedFlow(request: FastifyRequest): Result<Flow> {
  const flow = flowOf(request)
  return flow === undefined ? fail('passkey_expired') : ok({ flowHash: sha256(flow) })
}
