/** Buttons, and links that look like them. */
import { createLink } from '@tanstack/react-router'
import { useId, type AnchorHTMLAttributes, type ButtonHTMLAttributes, type ReactNode, type Ref } from 'react'
import { cx } from './class.ts'
import { toast } from './toast.tsx'

type Look = 'primary' | 'secondary' | 'danger' | 'quiet'

const base =
  'inline-flex min-h-9 items-center justify-center gap-2 rounded-md px-3 py-1.5 text-sm font-medium whitespace-nowrap transition-colors aria-disabled:opacity-55 disabled:opacity-55'

const looks: Readonly<Record<Look, string>> = {
  primary: 'bg-accent text-on-accent enabled:hover:bg-accent-strong',
  secondary: 'border border-line-strong bg-surface text-ink hover:bg-sunken',
  danger: 'bg-bad text-on-bad enabled:hover:bg-bad-strong',
  quiet: 'text-muted hover:bg-sunken hover:text-ink',
}

interface ButtonProps extends ButtonHTMLAttributes<HTMLButtonElement> {
  readonly look?: Look
  /** Shows a spinner and disables the button. */
  readonly busy?: boolean
  /** Why the button is disabled. It stays focusable and shows the reason when pressed. */
  readonly disabledReason?: string | undefined
  readonly ref?: Ref<HTMLButtonElement>
}

export function Button({ disabledReason, ...props }: ButtonProps) {
  return disabledReason === undefined ? (
    <PlainButton {...props} />
  ) : (
    <DisabledButton reason={disabledReason} {...props} />
  )
}

/** A tooltip alone would be unreachable without a mouse. */
function DisabledButton({
  reason,
  look = 'secondary',
  className,
  children,
  ...rest
}: ButtonProps & { reason: string }) {
  const id = useId()
  return (
    <>
      <button
        {...rest}
        type="button"
        aria-disabled="true"
        aria-describedby={id}
        title={reason}
        onClick={() => toast(reason, 'bad')}
        className={cx(base, looks[look].replaceAll('enabled:', 'not-aria-disabled:'), 'cursor-not-allowed', className)}
      >
        {children}
      </button>
      <span id={id} className="sr-only">
        {reason}
      </span>
    </>
  )
}

function PlainButton({ look = 'secondary', busy = false, className, disabled, children, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      disabled={disabled === true || busy}
      aria-busy={busy}
      className={cx(base, looks[look], className)}
    >
      {busy && <Spinner />}
      {children}
    </button>
  )
}

export function Spinner(): ReactNode {
  return (
    <span
      aria-hidden="true"
      className="size-3.5 animate-spin rounded-full border-2 border-current border-r-transparent"
    />
  )
}

interface LinkLook extends AnchorHTMLAttributes<HTMLAnchorElement> {
  readonly look?: Look
}

/** `<ButtonLink to="/rent" look="primary">` */
export const ButtonLink = createLink(function ButtonAnchor({ look = 'secondary', className, ...rest }: LinkLook) {
  const filled = look === 'primary' ? 'bg-accent text-on-accent hover:bg-accent-strong' : looks[look]
  // The router adds the children.
  // eslint-disable-next-line jsx-a11y/anchor-has-content
  return <a {...rest} className={cx(base, filled, className)} />
})

/** An inline link. */
export const TextLink = createLink(function TextAnchor({
  className,
  ...rest
}: AnchorHTMLAttributes<HTMLAnchorElement>) {
  // eslint-disable-next-line jsx-a11y/anchor-has-content
  return <a {...rest} className={cx('font-medium text-accent underline-offset-2 hover:underline', className)} />
})
