/** Who may open an account. */
import type { signUpModes } from '../contract/session-body.ts'

/**
 * `closed`: only the operator opens accounts. `invited`: also people whom the operator invites. `open`: everybody.
 * Members of existing accounts can be invited in each mode.
 */
export type SignUpMode = (typeof signUpModes)[number]
