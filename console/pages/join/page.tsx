/**
 * Making a machine a host: one command to paste there. The page waits for the machine and shows it when it has come; a
 * host raises no event, so it is asked for. The token is shown once and is gone with the page.
 */
import { useState } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import { count } from '../../../src/view/number.ts'
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
import { faultsOf, firstWish, joinCommand } from './command.ts'
import { JoinedHost } from './host.tsx'
import { JoinTerms } from './terms.tsx'
import { JoinTokens } from './tokens.tsx'
import { MACHINES_SHOWN } from '../supply/read.ts'

/** While somebody looks at the page and waits. */
const ARRIVALS_EVERY_MS = 2_000

const lifetimes = [
  { value: '1', label: 'An hour' },
  { value: '24', label: 'A day' },
  { value: '168', label: 'A week' },
  { value: '720', label: '30 days' },
] as const

type Token = Reply<'createJoinToken'>

export function JoinPage() {
  const me = useMe()
  // The operator's own machines belong to no supplier.
  const maySupply = me.account.supplier || mayUse(me, 'operator')
  return (
    <Page
      intro="Choose how the machine is offered and paste one command on it. It dials out, so no port has to be opened."
      actions={<ButtonLink to="/supply">My machines</ButtonLink>}
    >
      {maySupply ? <JoinForm /> : <NotASupplier accountId={me.account.id} />}
    </Page>
  )
}

function NotASupplier({ accountId }: { accountId: string }) {
  return (
    <Empty title="This account is not a supplier yet">
      Suppliers agree on a platform fee with the operator first. Ask the operator to set it for account{' '}
      <code className="font-mono">{accountId}</code>; after that you can join machines here.
    </Empty>
  )
}

function JoinForm() {
  const [made, setMade] = useState<Token>()
  const form = useCallForm('createJoinToken', {
    refreshes: ['listJoinTokens'],
    initial: firstWish,
    body: ({ uses, expiresInHours }) => ({
      uses: optionalNumber(uses) ?? Number.NaN,
      expiresInHours: Number(expiresInHours),
    }),
    check: faultsOf,
    onDone: setMade,
  })
  const { values: wish } = form
  return (
    <>
      <div className="grid items-start gap-5 xl:grid-cols-2">
        <Card title="1. What it sells">
          <form onSubmit={form.submit} noValidate className="flex flex-col gap-4">
            <JoinTerms form={form} />
            <div className="grid gap-4 border-t border-line pt-4 sm:grid-cols-2">
              <TextField label="Machines that may join" inputMode="numeric" {...form.text('uses')} />
              <SelectField label="The command is good for" choices={lifetimes} {...form.text('expiresInHours')} />
            </div>
            <FormProblems form={form} />
            <Button type="submit" look="primary" className="self-start" busy={form.isPending}>
              {made === undefined ? 'Make the command' : 'Make another command'}
            </Button>
          </form>
        </Card>
        <Card title="2. On the machine">
          {made === undefined ? (
            <Needs />
          ) : (
            <Paste token={made} command={form.isValid ? joinCommand(wish, location.origin, made.token) : undefined} />
          )}
        </Card>
      </div>
      {made !== undefined && <Arrivals token={made} />}
      <JoinTokens />
    </>
  )
}

function Needs() {
  return (
    <div className="flex flex-col gap-2 text-sm text-muted">
      <p>The command comes here. The machine needs:</p>
      <ul className="flex list-disc flex-col gap-1 pl-5">
        <li>Linux and Node 20.19 or newer, and a checkout of Berth of the server’s version.</li>
        <li>For containers Docker or Podman; for virtual machines QEMU.</li>
        <li>For real GPUs the NVIDIA driver and its container toolkit.</li>
        <li>Root and nftables, else tenants are not kept from the machine itself.</li>
      </ul>
    </div>
  )
}

function Paste({ token, command }: { token: Token; command: string | undefined }) {
  const leftMs = Date.parse(token.expiresAt) - useNow()
  if (leftMs <= 0) {
    return <p className="text-sm text-warn">The command has expired. Make another one.</p>
  }
  return (
    <div className="flex flex-col gap-3">
      {command === undefined ? (
        <p className="text-sm text-warn">What it sells is not right yet; see the marked fields.</p>
      ) : (
        <CodeBlock label="Command to paste on the machine" code={command} />
      )}
      <p className="text-sm text-muted">
        Paste it as root, in the folder of Berth. It holds a token that is not shown again, good for{' '}
        {count(token.usesLeft, 'machine')} and another <span className="tabular-nums">{span(leftMs)}</span>. It joins
        and goes on running; as a service, so that it is there after a reboot, see the handbook for suppliers.
      </p>
    </div>
  )
}

/** Hosts that have joined since the token was made. */
function Arrivals({ token }: { token: Token }) {
  const hosts = useCall('listSuppliedHosts', { query: { limit: MACHINES_SHOWN } }, { everyMs: ARRIVALS_EVERY_MS })
  const machines = useCall('listSuppliedMachines', { query: { limit: MACHINES_SHOWN } }, { everyMs: ARRIVALS_EVERY_MS })
  const since = Date.parse(token.createdAt)
  const arrived = (hosts.data?.hosts ?? []).filter((host) => Date.parse(host.joinedAt) >= since)
  return (
    <section aria-labelledby="arrivals" className="flex flex-col gap-3">
      <h2 id="arrivals" className="text-base font-semibold">
        3. The machine
      </h2>
      {hosts.error !== null && hosts.data === undefined && <ErrorNotice error={hosts.error} />}
      <div aria-live="polite" className="flex flex-col gap-3">
        {arrived.length < token.usesLeft && (
          <p className="flex items-center gap-3 rounded-lg border border-dashed border-line-strong px-4 py-6 text-sm text-muted">
            <Spinner />
            {arrived.length === 0
              ? 'Waiting for the machine. It shows up here by itself.'
              : `Waiting for ${token.usesLeft - arrived.length} more.`}
          </p>
        )}
        {arrived.map((host) => (
          <JoinedHost
            key={host.id}
            one={{
              id: host.id,
              host,
              machine: machines.data?.machines.find(({ id }) => id === host.id),
              of: host,
            }}
          />
        ))}
      </div>
    </section>
  )
}
