/**
 * Creates the command that makes a machine a host, then waits for the machine. Hosts raise no events, so they are
 * polled. The token is shown once and lost when the page is left.
 */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { count } from '../../../src/view/number.ts'
import { suppliedOf } from '../../../src/view/supply.ts'
import { span } from '../../../src/view/time.ts'
import { mayUse, useMe } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { FormProblems } from '../../form/dialog.tsx'
import { optionalNumber } from '../../form/read.ts'
import { useCallForm } from '../../form/use-form.ts'
import { Button, ButtonLink, Spinner } from '../../ui/button.tsx'
import { Card } from '../../ui/card.tsx'
import { CodeBlock } from '../../ui/copy.tsx'
import { Empty } from '../../ui/empty.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { SelectField, TextField } from '../../ui/field.tsx'
import { useNow } from '../../ui/now.ts'
import { Page } from '../../ui/page.tsx'
import { faultsOf, defaultValues, joinCommand } from './command.ts'
import { JoinedHost } from './host.tsx'
import { JoinTerms } from './terms.tsx'
import { JoinTokens } from './tokens.tsx'

const ARRIVALS_EVERY_MS = 2_000

const lifetimes = [
  { value: '1', label: '1 hour' },
  { value: '24', label: '1 day' },
  { value: '168', label: '7 days' },
  { value: '720', label: '30 days' },
] as const

type Token = Reply<'createJoinToken'>

export function JoinPage() {
  const me = useMe()
  // The operator's own machines belong to no supplier.
  const maySupply = me.account.supplier || mayUse(me, 'operator')
  return (
    <Page
      intro="Choose how to offer the machine, then run one command on it. It needs no open ports."
      actions={<ButtonLink to="/supply">My machines</ButtonLink>}
    >
      {maySupply ? <JoinForm /> : <NotASupplier accountId={me.account.id} />}
    </Page>
  )
}

function NotASupplier({ accountId }: { accountId: string }) {
  return (
    <Empty title="This account is not a supplier yet">
      Ask the operator to set a platform fee for account <code className="font-mono">{accountId}</code>. Then you can
      join machines here.
    </Empty>
  )
}

function JoinForm() {
  const [token, setToken] = useState<Token>()
  const form = useCallForm('createJoinToken', {
    refreshes: ['listJoinTokens'],
    initial: defaultValues,
    body: ({ uses, expiresInHours }) => ({
      uses: optionalNumber(uses) ?? Number.NaN,
      expiresInHours: Number(expiresInHours),
    }),
    check: faultsOf,
    onDone: setToken,
  })
  const { values } = form
  return (
    <>
      <div className="grid items-start gap-5 xl:grid-cols-2">
        <Card title="1. Offer">
          <form onSubmit={form.submit} noValidate className="flex flex-col gap-4">
            <JoinTerms form={form} />
            <div className="grid gap-4 border-t border-line pt-4 sm:grid-cols-2">
              <TextField label="Number of machines" inputMode="numeric" {...form.text('uses')} />
              <SelectField label="Expires after" choices={lifetimes} {...form.text('expiresInHours')} />
            </div>
            <FormProblems form={form} />
            <Button type="submit" look="primary" className="self-start" busy={form.isPending}>
              {token === undefined ? 'Create command' : 'Create another command'}
            </Button>
          </form>
        </Card>
        <Card title="2. Run the command">
          {token === undefined ? (
            <Needs />
          ) : (
            <Paste
              token={token}
              command={form.isValid ? joinCommand(values, location.origin, token.token) : undefined}
            />
          )}
        </Card>
      </div>
      {token !== undefined && <Arrivals token={token} />}
      <JoinTokens />
    </>
  )
}

function Needs() {
  return (
    <div className="flex flex-col gap-2 text-sm text-muted">
      <p>The command appears here. The machine needs:</p>
      <ul className="flex list-disc flex-col gap-1 pl-5">
        <li>Linux on x86-64 or arm64, and curl. The command brings all else that Berth needs.</li>
        <li>Docker or Podman for containers, QEMU for virtual machines.</li>
        <li>The NVIDIA driver and its container toolkit, unless GPUs are simulated.</li>
        <li>Root and nftables, to isolate tenants from the machine.</li>
      </ul>
    </div>
  )
}

function Paste({ token, command }: { token: Token; command: string | undefined }) {
  const leftMs = Date.parse(token.expiresAt) - useNow()
  if (leftMs <= 0) {
    return <p className="text-sm text-warn">The command has expired. Create another one.</p>
  }
  return (
    <div className="flex flex-col gap-3">
      {command === undefined ? (
        <p className="text-sm text-warn">Correct the marked fields to see the command.</p>
      ) : (
        <CodeBlock label="Command to run on the machine" code={command} />
      )}
      <p className="text-sm text-muted">
        Run it as root. It installs the agent from this server and starts it as a service. It contains a token for{' '}
        {count(token.usesLeft, 'machine')} that is not shown again and expires in{' '}
        <span className="tabular-nums">{span(leftMs)}</span>.
      </p>
    </div>
  )
}

/** Hosts that joined after the token was created. */
function Arrivals({ token }: { token: Token }) {
  const arrivals = useCall('listSupply', { query: { joinedAfter: token.createdAt } }, { everyMs: ARRIVALS_EVERY_MS })
  const arrived = arrivals.data?.supplied ?? []
  return (
    <section aria-labelledby="arrivals" className="flex flex-col gap-3">
      <h2 id="arrivals" className="text-base font-semibold">
        3. Wait for the machine
      </h2>
      {arrivals.error !== null && arrivals.data === undefined && <ErrorNotice error={arrivals.error} />}
      <div aria-live="polite" className="flex flex-col gap-3">
        {arrived.length < token.usesLeft && (
          <p className="flex items-center gap-3 rounded-lg border border-dashed border-line-strong px-4 py-6 text-sm text-muted">
            <Spinner />
            {arrived.length === 0
              ? 'Waiting for the machine. It will appear here.'
              : `Waiting for ${token.usesLeft - arrived.length} more.`}
          </p>
        )}
        {arrived.map((one) => (
          <JoinedHost key={one.id} one={suppliedOf(one)} />
        ))}
      </div>
    </section>
  )
}
