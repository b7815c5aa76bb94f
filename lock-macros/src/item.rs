//! What the attribute sits on.
//!
//! The signature is parsed and the body is kept as tokens: a body that is half written, as it is in an editor, still
//! expands. Only a function that is not `async` has its body parsed, to find the future that it gives back.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::{
    Attribute, Block, Error, Expr, ExprAsync, Ident, Result, Signature, Stmt, Token, Visibility,
    token,
};

use crate::groups::{is_punct, made_visible};
use crate::key::peel;

/// A function that can be guarded.
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) signature: Signature,
    /// Those in the body, such as `#![allow(…)]` and `//!`.
    pub(crate) inner_attrs: Vec<Attribute>,
    pub(crate) body: Braces,
    pub(crate) form: Form,
}

/// A block as it was written.
pub(crate) struct Braces {
    pub(crate) span: Span,
    pub(crate) content: TokenStream,
    /// The user's own token, where the body ends in the middle of something. The compiler has complained of it before the
    /// attribute was expanded, and only at the same closing brace it does not do so again.
    pub(crate) unfinished: Option<Group>,
}

/// Where in the function the code is that runs under the lock.
pub(crate) enum Form {
    /// `async fn`: the body.
    Async,
    /// `fn` that ends in `async { … }` or `Box::pin(async { … })`: that block.
    Future(Box<Future>),
}

/// A future at the end of a function that is not `async`. This is also what `#[async_trait]` makes of an `async fn`.
pub(crate) struct Future {
    pub(crate) before: TokenStream,
    /// The `Box::pin` around the block.
    pub(crate) wrapper: Option<Expr>,
    pub(crate) move_token: Option<Token![move]>,
    pub(crate) block: Braces,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        if let Some(error) = wrong_target(input) {
            return Err(error);
        }
        let signature: Signature = input.parse()?;
        if input.peek(Token![;]) {
            return Err(Error::new(
                signature.ident.span(),
                format!(
                    "`{}` has no body to guard: put `#[distributed_lock]` on the implementation",
                    signature.ident
                ),
            ));
        }
        let (inner_attrs, body) = body(input)?;
        let form = if signature.asyncness.is_some() {
            Form::Async
        } else {
            let future = future(made_visible(body.content.clone()));
            let (future, early) = future.ok_or_else(|| not_async(&signature))?;
            if let Some(early) = early {
                return Err(unguarded(&early));
            }
            Form::Future(Box::new(future))
        };
        Ok(Self {
            attrs,
            vis,
            signature,
            inner_attrs,
            body,
            form,
        })
    }
}

/// The error for anything but a function.
fn wrong_target(input: ParseStream<'_>) -> Option<Error> {
    if input.fork().parse::<Signature>().is_ok() {
        return None;
    }
    let keyword = input.fork().call(Ident::parse_any).ok()?;
    let target = match keyword.to_string().as_str() {
        "impl" => "an `impl` block",
        "trait" | "auto" => "a trait",
        "mod" => "a module",
        "struct" => "a struct",
        "enum" => "an enum",
        "union" => "a union",
        "type" => "a type alias",
        "static" => "a static",
        "const" => "a constant",
        "use" => "an import",
        "macro_rules" | "macro" => "a macro",
        "unsafe" if input.peek2(Token![impl]) => "an `impl` block",
        "unsafe" if input.peek2(Token![trait]) => "a trait",
        "extern" => "an `extern` block",
        _ => return None,
    };
    Some(Error::new(
        keyword.span(),
        format!(
            "`#[distributed_lock]` goes on an `async fn`, not on {target}: put it on each function that needs the lock"
        ),
    ))
}

fn not_async(signature: &Signature) -> Error {
    Error::new(
        signature.fn_token.span,
        "`#[distributed_lock]` needs an `async fn`, or one that ends in `async move { … }` or \
         `Box::pin(async move { … })`; if another attribute has taken the `async` away, such as `#[tokio::test]`, \
         write `#[distributed_lock]` above it",
    )
}

fn unguarded(early: &Ident) -> Error {
    Error::new(
        early.span(),
        "what is returned here would run without the lock: `#[distributed_lock]` guards the future at the end of the \
         function; decide inside of it, or write an `async fn`",
    )
}

fn body(input: ParseStream<'_>) -> Result<(Vec<Attribute>, Braces)> {
    let block = match input.fork().parse() {
        Ok(TokenTree::Group(block)) if block.delimiter() == Delimiter::Brace => block,
        _ => return Err(input.error("expected the body of the function")),
    };
    input.parse::<TokenTree>()?;
    let (inner_attrs, content) = inner_attributes(block.stream());
    let braces = Braces {
        span: block.span(),
        unfinished: is_unfinished(&content).then_some(block),
        content,
    };
    Ok((inner_attrs, braces))
}

fn inner_attributes(content: TokenStream) -> (Vec<Attribute>, TokenStream) {
    let split = |input: ParseStream<'_>| Ok((input.call(Attribute::parse_inner)?, input.parse()?));
    match split.parse2(content.clone()) {
        Ok((attrs, rest)) if !attrs.is_empty() => (attrs, made_visible(rest)),
        // Not put together anew.
        _ => (Vec::new(), content),
    }
}

/// Whether the body ends in the middle of a statement, as far as its last tokens tell.
fn is_unfinished(body: &TokenStream) -> bool {
    const NEED_MORE: [&str; 7] = ["let", "if", "else", "match", "while", "for", "use"];
    const ENDS: [&str; 8] = [
        "self", "Self", "true", "false", "await", "return", "break", "continue",
    ];
    let mut last = Vec::new();
    for tree in body.clone() {
        let ends = is_punct(&tree, ';') || is_group(&tree, Delimiter::Brace);
        last.push(tree);
        if ends {
            last.clear();
        }
    }
    let needs_more = |tree: &TokenTree| NEED_MORE.iter().any(|word| tree.to_string() == *word);
    match &*last {
        last if last.iter().any(needs_more) => true,
        // The end of a range, and not the dot before a field or method.
        [.., before, dot] if is_punct(dot, '.') => !is_punct(before, '.'),
        [.., TokenTree::Punct(last)] => !"?>".contains(last.as_char()),
        [.., TokenTree::Ident(word)] => {
            syn::parse2::<Ident>(word.to_token_stream()).is_err()
                && !ENDS.iter().any(|end| word == end)
        }
        [.., sign, group] => is_punct(sign, '#') && is_group(group, Delimiter::Bracket),
        _ => false,
    }
}

fn is_group(tree: &TokenTree, delimiter: Delimiter) -> bool {
    matches!(tree, TokenTree::Group(group) if group.delimiter() == delimiter)
}

/// The future at the end, and a `return` before it.
fn future(body: TokenStream) -> Option<(Future, Option<Ident>)> {
    let mut statements = Block::parse_within.parse2(body).ok()?;
    let Some(Stmt::Expr(tail, None)) = statements.pop() else {
        return None;
    };
    let (wrapper, block) = match peel(tail) {
        Expr::Async(block) => (None, block),
        Expr::Call(mut call) if call.args.len() == 1 && is_pin(&call.func) => {
            let Expr::Async(block) = peel(call.args.pop()?) else {
                return None;
            };
            (Some(*call.func), block)
        }
        _ => return None,
    };
    let ExprAsync {
        capture: move_token,
        block: Block {
            brace_token: token::Brace { span },
            stmts,
        },
        ..
    } = block;
    let early = statements
        .iter()
        .filter(|statement| !matches!(statement, Stmt::Item(_)))
        .find_map(|statement| early_return(statement.to_token_stream()));
    let future = Future {
        before: quote!(#(#statements)*),
        wrapper,
        move_token,
        block: Braces {
            span: span.join(),
            content: quote!(#(#stmts)*),
            unfinished: None,
        },
    };
    Some((future, early))
}

/// A `return` that may leave the function. That of an `async` block leaves the block; one in a closure is not told apart.
fn early_return(tokens: TokenStream) -> Option<Ident> {
    let mut in_async = false;
    tokens.into_iter().find_map(|tree| match tree {
        TokenTree::Ident(word) if word == "return" => Some(word),
        TokenTree::Ident(word) => {
            in_async = word == "async" || (in_async && word == "move");
            None
        }
        TokenTree::Group(group) => {
            let is_future = std::mem::take(&mut in_async);
            let is_block = group.delimiter() == Delimiter::Brace;
            (!(is_future && is_block))
                .then(|| early_return(group.stream()))
                .flatten()
        }
        _ => {
            in_async = false;
            None
        }
    })
}

fn is_pin(function: &Expr) -> bool {
    matches!(function, Expr::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "pin"))
}
