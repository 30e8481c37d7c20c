/** The frame of pages outside of the shell: signing in, invitations, and what an account requires. */
import { useEffect, type ReactNode } from 'react'

export function PublicPage({ title, children }: { title: string; children: ReactNode }) {
  useEffect(() => {
    document.title = `${title} · Berth`
  }, [title])
  return (
    <main className="mx-auto flex min-h-dvh w-full max-w-xl flex-col justify-center gap-6 p-4 sm:p-6">
      <div className="flex items-center gap-3">
        <img src="/favicon.svg" alt="" width="36" height="36" />
        <h1 className="min-w-0 text-2xl font-semibold break-words">{title}</h1>
      </div>
      {children}
    </main>
  )
}

/** A part of a public page with a frame. */
export function PublicCard({ children }: { children: ReactNode }) {
  return <div className="flex flex-col gap-4 rounded-lg border border-line bg-surface p-5">{children}</div>
}
