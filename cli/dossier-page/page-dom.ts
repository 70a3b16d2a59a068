// The little of the DOM that the page uses. The library of all of it would make `document` and `window` known to every
// file of a project that runs nowhere near a browser.

/** An element; text goes in through `textContent` only, so that nothing of a file is ever read as HTML. */
export interface PageElement {
  textContent: string | null;
  className: string;
  hidden: boolean;
  append(...children: PageElement[]): void;
  replaceChildren(...children: PageElement[]): void;
  setAttribute(name: string, value: string): void;
  addEventListener(type: string, listener: (event: PageEvent) => void): void;
}

/** A file that was picked or dropped. */
export interface PageFile {
  readonly name: string;
  readonly size: number;
  arrayBuffer(): Promise<ArrayBuffer>;
}

export interface PageEvent {
  readonly target: { readonly files?: Iterable<PageFile> | null } | null;
  readonly dataTransfer?: { readonly files: Iterable<PageFile> } | null;
  preventDefault(): void;
}

export interface PageDocument extends Pick<PageElement, 'addEventListener'> {
  title: string;
  getElementById(id: string): PageElement | null;
  createElement(name: string): PageElement;
}
