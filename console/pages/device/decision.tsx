/** Which device asks, and with what rights it is logged in. */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { limits } from '../../../src/base/limits.ts'
import { scopes, type Scope } from '../../../src/contract/endpoint.ts'
import { localTime } from '../../../src/view/time.ts'
import { useAction } from '../../api/query.ts'
import { PublicCard } from '../../shell/public-page.tsx'
import { RightsFields, type Rights } from '../../shell/rights-fields.tsx'
import { Button } from '../../ui/button.tsx'
import { Facts } from '../../ui/card.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Notice } from '../../ui/notice.tsx'

type Person = Reply<'getPerson'>
type Login = Reply<'findDeviceLogin'>

/** These rights suffice for machines, models and money. Managing keys and members is a choice. */
const usual: readonly Scope[] = ['inference', 'compute:read', 'compute:write', 'billing:read']

interface DecisionProps {
  readonly login: Login
  readonly code: string
  readonly person: Person
  readonly onDone: (outcome: string) => void
  readonly onBack: () => void
}

export function Decision({ login, code, person, onDone, onBack }: DecisionProps) {
  const { hostName } = login
  const approve = useAction('approveDeviceLogin', ['listDeviceKeys', 'listApiKeys'])
  const deny = useAction('denyDeviceLogin')
  const current = person.accounts.find(({ isCurrent }) => isCurrent) ?? person.accounts[0]
  const [rights, setRights] = useState<Rights>({
    accountId: current?.accountId ?? '',
    scopes: usual,
    days: String(login.days ?? limits.deviceKeyDaysDefault),
  })
  const error = approve.error ?? deny.error
  const days = Number(rights.days)
  const allow = (): void =>
    approve.mutate(
      {
        body: {
          userCode: code,
          accountId: rights.accountId,
          scopes: scopes.filter((scope) => rights.scopes.includes(scope)),
          days,
        },
      },
      {
        onSuccess: ({ accountName }) => onDone(`${hostName} is logged in to ${accountName}. You can close this page.`),
      },
    )
  const refuse = (): void =>
    deny.mutate({ body: { userCode: code } }, { onSuccess: () => onDone(`The login of ${hostName} is denied.`) })
  if (current === undefined) {
    return <Notice tone="warn">You do not belong to an account yet. Accept an invitation first.</Notice>
  }
  return (
    <PublicCard>
      <Device login={login} />
      <RightsFields accounts={person.accounts} offered={scopes} rights={rights} onChange={setRights} />
      {error !== null && <ErrorNotice error={error} />}
      <div className="flex flex-wrap gap-2">
        <Button
          look="primary"
          busy={approve.isPending}
          disabled={deny.isPending || rights.scopes.length === 0 || !(days >= 1)}
          onClick={allow}
        >
          Approve
        </Button>
        <Button look="danger" busy={deny.isPending} disabled={approve.isPending} onClick={refuse}>
          Deny
        </Button>
        <Button look="quiet" disabled={approve.isPending || deny.isPending} onClick={onBack}>
          Another code
        </Button>
      </div>
    </PublicCard>
  )
}

function Device({ login: { hostName, address, createdAt, expiresAt } }: { login: Login }) {
  return (
    <>
      <h2 className="text-lg font-semibold break-words">Log {hostName} in?</h2>
      <Facts
        facts={[
          ['Device', hostName],
          ['IP address', address],
          ['Asked', localTime(createdAt)],
          ['Code expires', localTime(expiresAt)],
        ]}
      />
      <Notice tone="warn">
        The device tells its name itself. Approve only if you see this code on it now, and started the login yourself.
      </Notice>
    </>
  )
}
