/**
 * Every reason for which Berth rejects something, in one table: the class of the failure (from which the HTTP status
 * follows), a sentence that says what happened, and the next step. API, CLI, console and docs/errors.md take their text
 * from here. Reasons are part of the API: clients switch on them.
 */
import { accessReasons } from './reason-access.ts'
import { accountReasons } from './reason-account.ts'
import { downloadReasons } from './reason-download.ts'
import { engineReasons, modelReasons } from './reason-model.ts'
import type { ReasonEntry } from './reason-entry.ts'
import { mcpReasons } from './reason-mcp.ts'
import { portReasons } from './reason-port.ts'
import { rentalReasons } from './reason-rental.ts'
import { ssoReasons } from './reason-sso.ts'
import { supplyReasons } from './reason-supply.ts'

export const reasons = {
  ...accessReasons,
  ...accountReasons,
  ...ssoReasons,
  ...rentalReasons,
  ...portReasons,
  ...supplyReasons,
  ...modelReasons,
  ...engineReasons,
  ...downloadReasons,
  ...mcpReasons,
} as const satisfies Readonly<Record<string, ReasonEntry>>

export type Reason = keyof typeof reasons
